//! `pin`: commits that stay readable under a name.

use std::time::SystemTime;

use hedgerow::tree::{Pin, Store};
use serde_json::{Value, json};

use crate::codec::shown;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::{Name, StoreArg, parse_name};
use crate::wait;

/// Keep the newest commit readable under a name, list such names, or drop one
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["name", "list"]),
    override_usage = "hedgerow pin [OPTIONS] <STORE> <NAME>\n       \
        hedgerow pin [OPTIONS] --list <STORE>")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
    /// The name, in the text format
    #[arg(value_parser = parse_name)]
    pub(super) name: Option<Name>,
    /// List the pins: name, commit, pages that would be free without it (engine tree), age
    #[arg(long)]
    pub(super) list: bool,
    /// Let the commit of the name go
    #[arg(long, requires = "name")]
    pub(super) drop: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let Some(Name(name)) = &args.name else { return list(&args.store.read()?, json) };
    let store = args.store.write()?;
    drop(wait::begin_write(&store)?);
    match args.drop {
        true => dropped(store.drop_pin(name)?, json),
        false => made(name, store.pin(name)?, json),
    }
}

/// Says whether a pin was dropped.
pub(super) fn dropped(is_dropped: bool, json: bool) -> Result<Exit, Failure> {
    json::outcome(json, json!({ "dropped": is_dropped }), is_dropped, "not found")
}

/// Says what was pinned.
pub(super) fn made(name: &[u8], commit: u64, json: bool) -> Result<Exit, Failure> {
    let value = json!({ "name": shown(name), "commit": commit });
    json::answer(json, value, |out| writeln!(out, "{commit}"))
}

fn list(store: &Store, is_json: bool) -> Result<Exit, Failure> {
    json::list(is_json, &store.pins()?, json, line)
}

/// How long ago that was, in seconds.
pub(super) fn age(created: SystemTime) -> f64 {
    created.elapsed().unwrap_or_default().as_secs_f64()
}

/// A pin as a line.
pub(super) fn line(pin: &Pin) -> String {
    let (name, commit, pages) = (shown(&pin.name), pin.commit, pin.held_pages);
    format!("{name}: commit {commit}, holds {pages} pages since {:.1} s", age(pin.created))
}

/// A pin as an object.
pub(super) fn json(pin: &Pin) -> Value {
    json!({
        "name": shown(&pin.name), "commit": pin.commit, "held_pages": pin.held_pages,
        "age_seconds": age(pin.created),
    })
}
