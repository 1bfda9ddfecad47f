//! The pages of a web list: each answer carries a token with which the next page is asked for, of
//! whatever process, and however the list changes in between.
//!
//! Run: `cargo run --example pages_by_token`

use hedgerow::stream::{Scan, Sink, Token};
use hedgerow::tree::Store;

/// One page: its lines, and the token of the next one, if there is one.
fn page(
    store: &Store,
    token: Option<&str>,
) -> Result<(Vec<String>, Option<String>), Box<dyn std::error::Error>> {
    let scan = Scan::new("articles").reverse();
    let scan = match token {
        // It comes from outside: one that was damaged, or is of another store or table, is refused.
        Some(token) => scan.after_token(&token.parse::<Token>()?, store)?,
        None => scan,
    };
    let mut pairs = scan.pairs(store)?;
    let mut lines = Vec::new();
    for pair in pairs.by_ref().take(4) {
        let pair = pair?;
        lines.push(format!("{}: {}", text(&pair.key().to_cow()), text(&pair.value().to_cow())));
    }
    let is_last = pairs.remaining() == Some(0);
    let next = if is_last { None } else { Some(pairs.token()?.to_string()) };
    Ok((lines, next))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::create(folder.path().join("store"))?;
    let mut sink = Sink::new(&store, "articles")?;
    for day in 1..=10 {
        sink.put(format!("2026-05-{day:02}").as_bytes(), format!("article {day}").as_bytes())?;
    }
    sink.finish()?;

    let (mut token, mut seen) = (None, Vec::new());
    loop {
        let (lines, next) = page(&store, token.as_deref())?;
        println!("{}\n", lines.join("\n"));
        seen.extend(lines);
        let Some(next) = next else { break };
        token = Some(next);
        // An article that comes in between moves none from one page to another.
        let mut sink = Sink::new(&store, "articles")?;
        sink.put(b"2026-06-01", b"a newer one")?;
        sink.finish()?;
    }
    let articles = (1..=10).rev().map(|day| format!("2026-05-{day:02}: article {day}"));
    assert!(articles.eq(seen));
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
