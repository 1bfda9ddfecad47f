//! A leaderboard: the player on place n, the place of a player, the number of players between two
//! scores, each in a few page reads, however many players there are.

use std::cmp::Reverse;

use hedgerow::Durability;
use hedgerow::Result;
use hedgerow::tree::{Store, TypedTable, WriteTxn};

/// From a player to the best score.
type Scores = TypedTable<String, u32>;
/// Ordered from the best score down, and by name where scores are equal.
type Board = TypedTable<(Reverse<u32>, String), ()>;

/// Keeps both tables in step.
fn record(
    txn: &mut WriteTxn,
    scores: Scores,
    board: Board,
    player: &str,
    score: u32,
) -> Result<()> {
    if let Some(old) = scores.replace(txn, player, score)? {
        board.delete(txn, (Reverse(old), player))?;
    }
    board.put(txn, (Reverse(score), player), ())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("game.hedgerow");
    let store = Store::builder().durability(Durability::Eventual).open_or_create(path)?;

    let mut txn = store.begin_write()?;
    let scores = Scores::create(&mut txn, "scores")?;
    let board = Board::create(&mut txn, "board")?;
    for player in 0..10_000u32 {
        // Each score from 0 to 9,999 once, in an order that looks random.
        record(&mut txn, scores, board, &format!("player{player:04}"), player * 7919 % 10_000)?;
    }
    record(&mut txn, scores, board, "player0000", 50_000)?;
    txn.commit()?;

    let txn = store.begin_read()?;
    let scores = Scores::open(&txn, "scores")?;
    let board = Board::open(&txn, "board")?;
    assert_eq!(board.count(&txn)?, 10_000);

    let ((best, winner), ()) = board.nth(&txn, 0)?.ok_or("the board is empty")?;
    println!("first: {winner} with {} points", best.0);
    assert_eq!((winner.as_str(), best), ("player0000", Reverse(50_000)));

    // The player that had no points now leads, so each score from 1 to 9,999 is left once.
    let ((middle, _), ()) = board.nth(&txn, 5_000)?.ok_or("the board is short")?;
    assert_eq!(middle, Reverse(5_000));

    let score = scores.get(&txn, "player0042")?.ok_or("no such player")?;
    let place = board.rank(&txn, (Reverse(score), "player0042"))?;
    println!("player0042 has {score} points and is number {} of 10000", place.keys + 1);
    assert!(place.found);
    assert_eq!(place.keys, u64::from(10_000 - score));

    // From 9,000 points down to 8,001: a range of first parts, whatever the names.
    let between = board.count_range(&txn, (Reverse(9_000), "")..(Reverse(8_000), ""))?;
    assert_eq!(between, 1_000);
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
