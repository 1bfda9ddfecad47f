//! What was measured, as rows: medians, dispersion, ratios, goals; as a table or as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::peer::Peer;
use super::spec::{Better, Goal, Workload};
use crate::engine::Result;

/// The results of one engine in one step, a value for each round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) values: Vec<f64>,
    /// What went wrong, if something did.
    pub(crate) fault: Option<String>,
}

/// A step of a workload.
pub(crate) struct Row {
    pub(crate) workload: String,
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    better: Better,
    pub(crate) goal: Option<Goal>,
    /// Whether missing the goal fails the run.
    is_bound: bool,
    pub(crate) answers: Vec<Answer>,
}

/// What one engine brought in it.
pub(crate) struct Answer {
    engine: Peer,
    cell: Cell,
    median: f64,
    /// The median of the distances from the median.
    deviation: f64,
    /// The ratio to the first peer: the median of the rounds' ratios.
    pub(crate) ratio: Option<f64>,
}

/// The middle value; of an even number, the middle of the two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The median of the distances from the median.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    let middle = median(values);
    median(&values.iter().map(|value| (value - middle).abs()).collect::<Vec<_>>())
}

/// How much better an engine is than the peer, round by round.
fn ratio(better: Better, ours: &Cell, peer: &Cell) -> Option<f64> {
    let pairs = ours.values.iter().zip(&peer.values);
    let ratios: Vec<f64> = pairs
        .map(|(ours, peer)| match better {
            Better::Less => peer / ours,
            Better::More | Better::Amount => ours / peer,
        })
        // Where the peer needs nothing of an amount there is no telling how many times that is.
        .filter(|ratio| ratio.is_finite())
        .collect();
    (!ratios.is_empty()).then(|| median(&ratios))
}

/// The rows of a workload from its cells.
pub(crate) fn rows(workload: &Workload, engines: &[Peer], cells: Vec<Vec<Cell>>) -> Vec<Row> {
    let peer = engines.iter().position(|engine| *engine != Peer::Hedgerow);
    let steps = workload.steps.iter().zip(cells);
    let row = |(step, cells): (&super::Step, Vec<Cell>)| {
        let (unit, better) = step.unit();
        let ratio_of = |cell: &Cell| ratio(better, cell, &cells[peer?]);
        let answers = cells.iter().zip(engines).map(|(cell, engine)| Answer {
            engine: *engine,
            median: median(&cell.values),
            deviation: deviation(&cell.values),
            ratio: ratio_of(cell),
            cell: cell.clone(),
        });
        Row {
            workload: workload.name.clone(),
            name: step.name.clone(),
            unit,
            better,
            goal: step.goal,
            is_bound: step.is_bound(),
            answers: answers.collect(),
        }
    };
    steps.map(row).collect()
}

impl Row {
    /// Whether a ratio below 1 is better: of sizes and memory.
    pub(crate) fn less_is_better(&self) -> bool {
        self.better == Better::Amount && matches!(self.unit, "MiB" | "KiB")
    }

    /// Whether Hedgerow meets the goal, if there is one and LMDB was measured, too.
    pub(crate) fn met(&self) -> Option<bool> {
        let goal = self.goal?;
        let ours = self.answers.iter().find(|answer| answer.engine == Peer::Hedgerow)?;
        let peer = self.answers.iter().find(|answer| answer.engine != Peer::Hedgerow);
        let ratio = ours.ratio.filter(|_| peer.is_some_and(|peer| peer.engine == Peer::Lmdb));
        if ours.cell.values.is_empty() { None } else { goal.met(ours.median, ratio) }
    }
}

/// What went wrong, a line each.
pub(crate) fn faults(rows: &[Row]) -> Vec<String> {
    let of_row = |row: &Row| {
        let faults = row.answers.iter().filter_map(|answer| {
            let fault = answer.cell.fault.as_ref()?;
            Some(format!("{}, {}, {}: {fault}", row.workload, row.name, answer.engine.text()))
        });
        let bound = row.goal.filter(|_| row.is_bound && row.met() == Some(false));
        let missed = bound.map(|goal| {
            format!("{}, {}: memory has no bound, {goal} {}", row.workload, row.name, row.unit)
        });
        faults.chain(missed).collect::<Vec<_>>()
    };
    rows.iter().flat_map(of_row).collect()
}

/// A number as people read it: three digits that count, or all before the point.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => {
            let digits = format!("{:.0}", value.abs());
            let mut text = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at) % 3 == 0 {
                    text.push(',');
                }
                text.push(digit);
            }
            text
        }
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn number(value: Option<f64>) -> Value {
    value.filter(|value| value.is_finite()).map_or(Value::Null, |value| json!(value))
}

/// One object: the machine, and a list of rows, one for each engine in each step, a line each.
pub(crate) fn to_json(rows: &[Row], machine: &Value) -> String {
    let of_row = |row: &Row| {
        let answer = |answer: &Answer| {
            let ours = answer.engine == Peer::Hedgerow;
            json!({
                "workload": row.workload,
                "row": row.name,
                "engine": answer.engine.text(),
                "value": number(Some(answer.median)),
                "unit": row.unit,
                "deviation": number(Some(answer.deviation)),
                "rounds": answer.cell.values,
                "ratio": number(answer.ratio),
                "right": answer.cell.fault.is_none(),
                "fault": answer.cell.fault,
                "goal": row.goal.filter(|_| ours).map(|goal| goal.to_string()),
                "met": row.met().filter(|_| ours),
            })
        };
        row.answers.iter().map(answer).collect::<Vec<_>>()
    };
    let all: Vec<String> = rows.iter().flat_map(of_row).map(|row| row.to_string()).collect();
    format!("{{\n\"machine\": {machine},\n\"rows\": [\n{}\n]\n}}\n", all.join(",\n"))
}

/// A Markdown table for each workload.
pub(crate) fn to_table(rows: &[Row], engines: &[Peer]) -> Result<String> {
    let mut text = String::new();
    let mut last = "";
    for row in rows {
        if row.workload != last {
            last = &row.workload;
            let names: Vec<_> = engines.iter().map(|engine| engine.text()).collect();
            let rules = vec!["---:"; engines.len()].join("|");
            writeln!(text, "\n### {last}\n")?;
            writeln!(text, "| row | unit | {} | goal | answers |", names.join(" | "))?;
            writeln!(text, "|---|---|{rules}|---|---|")?;
        }
        let cells: Vec<String> = row.answers.iter().map(cell_text).collect();
        let goal = match (row.goal, row.met()) {
            (Some(goal), Some(true)) => format!("{goal}: met"),
            (Some(goal), Some(false)) => format!("{goal}: **missed**"),
            (Some(goal), None) => format!("{goal}"),
            (None, _) => String::new(),
        };
        let right = row.answers.iter().all(|answer| answer.cell.fault.is_none());
        let right = if right { "right" } else { "**wrong**" };
        let (name, unit) = (&row.name, row.unit);
        writeln!(text, "| {name} | {unit} | {} | {goal} | {right} |", cells.join(" | "))?;
    }
    Ok(text)
}

/// Median, dispersion in hundredths, ratio to the first peer.
pub(crate) fn cell_text(answer: &Answer) -> String {
    if answer.cell.values.is_empty() {
        return "-".into();
    }
    let mut text = short(answer.median);
    if answer.cell.values.len() > 1 && answer.median != 0.0 {
        let percent = 100.0 * answer.deviation / answer.median;
        text += &format!(" ±{percent:.0}%");
    }
    if let Some(ratio) = answer.ratio {
        text += &format!(" ({})", short(ratio));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_dispersion() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(deviation(&[1.0, 2.0, 9.0]), 1.0);
    }

    #[test]
    fn a_ratio_above_one_is_better() {
        let cell = |values: &[f64]| Cell { values: values.to_vec(), fault: None };
        let (ours, peer) = (cell(&[1.0, 2.0, 4.0]), cell(&[2.0, 4.0, 8.0]));
        assert_eq!(ratio(Better::Less, &ours, &peer), Some(2.0));
        assert_eq!(ratio(Better::More, &ours, &peer), Some(0.5));
        assert_eq!(ratio(Better::More, &ours, &cell(&[])), None);
    }

    #[test]
    fn memory_without_a_bound_is_a_fault() {
        let answer = Answer {
            engine: Peer::Hedgerow,
            cell: Cell { values: vec![2000.0], fault: None },
            median: 2000.0,
            deviation: 0.0,
            ratio: None,
        };
        let mut row = Row {
            workload: "w".into(),
            name: "scan".into(),
            unit: "KiB",
            better: Better::Amount,
            goal: Some(Goal::value_at_most(1024.0)),
            is_bound: true,
            answers: vec![answer],
        };
        let told = faults(std::slice::from_ref(&row));
        assert_eq!(told, ["w, scan: memory has no bound, value <= 1024 KiB"]);
        row.answers[0].median = 8.0;
        assert_eq!(faults(&[row]), [""; 0]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            ["1,234,568", "12.3", "1.23"].map(String::from),
            [1234567.8, 12.34, 1.234].map(short)
        );
    }
}
