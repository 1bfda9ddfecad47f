//! What the pages of `stat --html` are made of: one file, its pictures drawn as inline SVG, no
//! script and nothing from elsewhere. It follows the reader's light or dark setting. Words stand
//! beside the pictures, not in them, where they would shrink with them.

use std::fmt::Write;

const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fbfbf8;--panel:#fff;--ink:#1d2320;--soft:#66706a;\
--line:#dfe3de;--leaf:#3f8f4f;--branch:#8a5a2b;--overflow:#3b79b8;--own:#8d6bb5;--free:#d5dad3;\
--pinned:#d08a2e}\
@media(prefers-color-scheme:dark){:root{--ground:#141815;--panel:#1c211d;--ink:#e7ece8;\
--soft:#98a39b;--line:#303731;--leaf:#5fb36f;--branch:#b98550;--overflow:#69a5e0;--own:#b193d6;\
--free:#3a423c;--pinned:#e0a552}}\
*{box-sizing:border-box}\
body{margin:0 auto;max-width:62rem;padding:2rem 1.25rem;background:var(--ground);\
color:var(--ink);font:16px/1.5 system-ui,sans-serif}\
h1{font-size:1.5rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:2rem 0 .75rem}\
p{margin:.25rem 0;color:var(--soft)}\
.panel{background:var(--panel);border:1px solid var(--line);border-radius:.6rem;padding:1rem;\
margin:0 0 1rem}.panel h3{margin:0;font-size:1rem;overflow-wrap:anywhere}\
svg{display:block;width:100%;height:auto;margin:.6rem 0}\
.legend{display:flex;flex-wrap:wrap;gap:.35rem 1.25rem;font-size:.9rem}\
.legend i{display:inline-block;width:.8em;height:.8em;border-radius:.2em;margin-right:.45em}\
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}\
td,th{text-align:right;padding:.3rem .6rem;border-bottom:1px solid var(--line)}\
td:first-child,th:first-child{text-align:left}\
.row{margin:.6rem 0}.row svg{margin:.15rem 0 0}.row span{font-size:.9rem}";

/// The width of every picture in its own units.
const WIDTH: f64 = 900.0;

/// A page with that title.
pub(in crate::commands) fn document(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n{body}</body></html>\n"
    )
}

/// A part of a whole.
pub(in crate::commands) struct Share {
    pub(in crate::commands) color: &'static str,
    pub(in crate::commands) label: String,
    pub(in crate::commands) part: u64,
}

/// One bar of the parts of a whole, and what they are.
pub(in crate::commands) fn shares(out: &mut String, shares: &[Share]) {
    let total = shares.iter().map(|share| share.part).sum::<u64>().max(1) as f64;
    put(out, format_args!("<h2>Space</h2><div class=\"panel\">"));
    put(out, format_args!("<svg viewBox=\"0 0 {WIDTH} 44\" role=\"img\" aria-label=\"space\">"));
    let mut x = 0.0;
    for Share { color, label, part } in shares {
        let width = *part as f64 / total * WIDTH;
        if *part > 0 {
            put(
                out,
                format_args!(
                    "<rect x=\"{x:.2}\" width=\"{width:.2}\" height=\"44\" \
                     fill=\"var(--{color})\"><title>{label}</title></rect>"
                ),
            );
        }
        x += width;
    }
    put(out, format_args!("</svg><div class=\"legend\">"));
    for Share { color, label, part } in shares {
        let percent = *part as f64 / total * 100.0;
        put(
            out,
            format_args!(
                "<span><i style=\"background:var(--{color})\"></i>{label}, {percent:.1} %</span>"
            ),
        );
    }
    put(out, format_args!("</div></div>"));
}

/// A row of a picture: a level, or what is beside the levels.
pub(in crate::commands) struct Row {
    pub(in crate::commands) color: &'static str,
    pub(in crate::commands) label: String,
    /// Its width goes with the logarithm of this, or the smallest would be invisible.
    pub(in crate::commands) size: u64,
    /// In percent, where it is known.
    pub(in crate::commands) fill: Option<f64>,
}

impl Row {
    /// In words, which stay readable on a small screen; below them the size, as a bar in the
    /// middle, and fill, as a bar on a scale of 100 percent.
    pub(in crate::commands) fn draw(&self, out: &mut String, widest: u64) {
        const SIZE: f64 = 600.0;
        const FILL: f64 = 240.0;
        let (color, label) = (self.color, escape(&self.label));
        let log = |size: u64| (size as f64 + 1.0).ln();
        let width = (SIZE * log(self.size) / log(widest.max(1))).max(4.0);
        let x = (SIZE - width) / 2.0;
        put(out, format_args!("<div class=\"row\"><span>{label}</span>"));
        put(
            out,
            format_args!(
                "<svg viewBox=\"0 0 {WIDTH} 22\" role=\"img\" aria-label=\"{label}\"><rect \
                 x=\"{x:.1}\" width=\"{width:.1}\" height=\"22\" rx=\"4\" \
                 fill=\"var(--{color})\"/>"
            ),
        );
        if let Some(fill) = self.fill {
            let (x, width) = (WIDTH - FILL, FILL * (fill / 100.0).clamp(0.0, 1.0));
            put(
                out,
                format_args!(
                    "<rect x=\"{x}\" width=\"{FILL}\" height=\"22\" fill=\"var(--free)\"/><rect \
                     x=\"{x}\" width=\"{width:.1}\" height=\"22\" fill=\"var(--{color})\"/>"
                ),
            );
        }
        put(out, format_args!("</svg></div>"));
    }
}

/// Adds a line.
pub(in crate::commands) fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(text);
    out.push('\n');
}

/// Text as HTML shows it.
pub(in crate::commands) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}
