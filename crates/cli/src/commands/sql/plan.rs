//! What `EXPLAIN QUERY PLAN` gives, as a tree.

/// A step: its number, that of the step above it, and what it does.
pub(super) type Step = (i64, i64, String);

/// The lines of the tree.
pub(super) fn tree(steps: &[Step]) -> Vec<String> {
    let mut lines = vec!["QUERY PLAN".to_owned()];
    below(steps, 0, "", &mut lines);
    lines
}

fn below(steps: &[Step], parent: i64, lead: &str, lines: &mut Vec<String>) {
    // A step is listed after the one above it, so that numbers ascend on every way down.
    let own: Vec<_> = steps.iter().filter(|(id, of, _)| *of == parent && *id > parent).collect();
    for (at, (id, _, what)) in own.iter().enumerate() {
        let is_last = at + 1 == own.len();
        lines.push(format!("{lead}{}{what}", if is_last { "`--" } else { "|--" }));
        below(steps, *id, &format!("{lead}{}", if is_last { "   " } else { "|  " }), lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_stand_below_each_other() {
        let steps = [(2, 0, "SCAN t"), (5, 0, "UNION"), (6, 5, "LEFT"), (9, 5, "RIGHT")];
        let steps = steps.map(|(id, parent, what)| (id, parent, what.to_owned()));
        let wanted = ["QUERY PLAN", "|--SCAN t", "`--UNION", "   |--LEFT", "   `--RIGHT"];
        assert_eq!(tree(&steps), wanted);
    }
}
