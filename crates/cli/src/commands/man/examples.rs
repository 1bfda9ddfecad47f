//! The examples of the manual's pages.

/// A subcommand, what is to be done, and how.
pub(super) const EXAMPLES: &[(&str, &str, &str)] = &[
    (
        "demo",
        "See what a tree that counts can answer, about files of your own:",
        "hedgerow demo /usr",
    ),
    ("create", "A store that never grows beyond a GiB:", "hedgerow create fruit --max-size 1G"),
    (
        "create",
        "A table whose keys have several values, in a store that is there:",
        "hedgerow create fruit --table colours --duplicates",
    ),
    ("tables", "Which tables there are:", "hedgerow tables fruit"),
    ("put", "Store a value under a key:", "hedgerow put fruit apple green"),
    ("get", "Print it:", "hedgerow get fruit apple"),
    ("delete", "Delete all keys that begin with a prefix:", "hedgerow delete fruit --prefix ap"),
    ("scan", "Ten entries from a key on:", "hedgerow scan fruit --from banana -n 10"),
    ("count", "How many keys lie in a range:", "hedgerow count fruit --from a --before b"),
    ("rank", "How many come before a key:", "hedgerow rank fruit cherry"),
    ("nth", "The entry with 1,000 before it:", "hedgerow nth fruit 1000"),
    ("sample", "Five entries at equal distances:", "hedgerow sample fruit 5"),
    ("stat", "A page with pictures:", "hedgerow stat fruit --html fruit.html"),
    ("check", "Whether every page is sound:", "hedgerow check fruit"),
    ("salvage", "Bring over what is sound:", "hedgerow salvage damaged rescued"),
    ("copy", "A backup while others read and write:", "hedgerow copy fruit backup"),
    ("compact", "Give free space back, while others use the store:", "hedgerow compact fruit"),
    ("limit", "Let a store grow to ten GiB:", "hedgerow limit fruit 10G"),
    ("pin", "Keep today's state readable:", "hedgerow pin fruit monday"),
    ("diff", "What changed since then:", "hedgerow diff fruit --pin monday"),
    (
        "follow",
        "All entries, and then what each commit changes, each time from where it ended:",
        "hedgerow follow fruit cache --json",
    ),
    (
        "copy",
        "A second store that keeps up until Ctrl-C:",
        "hedgerow copy fruit standby --follow standby",
    ),
    ("dump", "All tables as mdb_load reads them:", "hedgerow dump fruit fruit.dump --all"),
    ("dump", "One table as JSON lines:", "hedgerow dump fruit fruit.jsonl --as jsonl"),
    (
        "load",
        "JSON lines of another program, each whole under its number:",
        "hedgerow load log log.jsonl --as jsonl --key-field id --whole --key-format u64",
    ),
    (
        "load",
        "The names of files, whatever bytes they have:",
        "find . -print0 | hedgerow load files --as lines -0 --keys-only",
    ),
    ("convert", "A database of LMDB:", "hedgerow convert --from-lmdb /var/lib/db fruit"),
    ("convert", "And back:", "hedgerow convert --from fruit --to-lmdb db"),
    #[cfg(feature = "sql")]
    (
        "sql",
        "Ask in SQL, of a store or a file of SQLite's:",
        "hedgerow sql shop 'SELECT count(*) FROM sales'",
    ),
    ("completions", "Let bash complete arguments:", "hedgerow completions bash"),
    ("man", "Write a page for each subcommand:", "hedgerow man --folder man"),
];
