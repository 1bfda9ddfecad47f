//! Where SQLite's source is cut: some of its functions get other names, and `hedgerow.c`, which
//! stands for them together with the files that it includes, is included after them. Every other
//! line stays as it is.

/// The functions of the b-tree (`sqlite3Btree...`) that `hedgerow.c` has its own of. It calls
/// SQLite's, under their new names, for files that are SQLite's.
const BTREE: &[&str] = &[
    "BeginStmt",
    "BeginTrans",
    "Checkpoint",
    "ClearTable",
    "Close",
    "CloseCursor",
    "CommitPhaseOne",
    "CommitPhaseTwo",
    "Count",
    "CreateTable",
    "Cursor",
    "CursorSize",
    "Delete",
    "DropTable",
    "First",
    "GetAutoVacuum",
    "GetFilename",
    "GetJournalname",
    "GetMeta",
    "IncrVacuum",
    "IndexMoveto",
    "Insert",
    "IntegerKey",
    "IntegrityCheck",
    "IsEmpty",
    "Last",
    "LastPage",
    "MaxPageCount",
    "MaxRecordSize",
    "Next",
    "Offset",
    "Open",
    "Payload",
    "PayloadChecked",
    "PayloadFetch",
    "PayloadSize",
    "Previous",
    "PutData",
    "Rollback",
    "RowCountEst",
    "Savepoint",
    "SetAutoVacuum",
    "SetPageSize",
    "SetPagerFlags",
    "SetVersion",
    "TableMoveto",
    "TransferRow",
    "UpdateMeta",
];

/// Other functions that `hedgerow.c` has its own of, and in which file of SQLite's they are.
const OTHERS: &[(&str, &str)] = &[
    ("sqlite3BtreeCopyFile", "backup.c"),
    ("sqlite3_backup_init", "backup.c"),
    ("sqlite3_backup_step", "backup.c"),
    ("sqlite3_backup_finish", "backup.c"),
    ("sqlite3_backup_remaining", "backup.c"),
    ("sqlite3_backup_pagecount", "backup.c"),
    ("sqlite3_serialize", "memdb.c"),
    ("sqlite3_file_control", "main.c"),
    ("sqlite3RunVacuum", "vacuum.c"),
    ("sqlite3VdbeMakeReady", "vdbeaux.c"),
    ("codeOffset", "select.c"),
    ("lookupName", "resolve.c"),
    ("sqlite3ErrStr", "main.c"),
];

/// What SQLite's own functions are called after the cut.
const PREFIX: &str = "native_";

type Result<T> = std::result::Result<T, String>;

/// The source with the cut made.
///
/// # Errors
/// If a file or a function that is named here is not in it: a version of SQLite that is cut in
/// another way.
pub(crate) fn cut(text: &str) -> Result<String> {
    let mut text = text.to_owned();
    for (name, file) in OTHERS {
        rename(&mut text, file, name)?;
    }
    for name in BTREE {
        rename(&mut text, "btree.c", &format!("sqlite3Btree{name}"))?;
    }
    let (_, header_end) = file(&text, "btree.h")?;
    let (begin, _) = file(&text, "btmutex.c")?;
    let (_, end) = file(&text, "backup.c")?;
    if header_end > begin || begin > end {
        return Err("the files of the source stand in another order".into());
    }
    let prototypes = prototypes(&text)?;
    let shim = "#include \"hedgerow.c\"\n";
    Ok([&text[..begin], &prototypes, &text[begin..end], shim, &text[end..]].concat())
}

/// Where a file of SQLite's begins and ends.
fn file(text: &str, name: &str) -> Result<(usize, usize)> {
    let find = |mark: String| {
        text.find(&mark).ok_or_else(|| format!("SQLite's source has no line \"{mark}\""))
    };
    let begin = find(format!("/************** Begin file {name} "))?;
    let end = find(format!("/************** End of {name} "))?;
    let line = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
    Ok((begin, line))
}

/// Where in a file the definition of a function begins, and where its name stands.
fn definition(text: &str, in_file: &str, name: &str) -> Result<(usize, usize)> {
    let (begin, end) = file(text, in_file)?;
    let call = format!("{name}(");
    let mut line_begin = begin;
    for line in text[begin..end].split_inclusive('\n') {
        let heads = ["SQLITE_PRIVATE ", "SQLITE_API ", "static "];
        if heads.iter().any(|head| line.starts_with(head))
            && let Some(at) = line.find(&call)
        {
            let before = line[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                return Ok((line_begin, line_begin + at));
            }
        }
        line_begin += line.len();
    }
    Err(format!("{in_file} of SQLite's source does not define {name}"))
}

/// Gives the definition of a function its new name.
fn rename(text: &mut String, in_file: &str, name: &str) -> Result<()> {
    let (line, at) = definition(text, in_file, name)?;
    text.insert_str(at, PREFIX);
    if text[line..].starts_with("SQLITE_API ") {
        text.replace_range(line..line + "SQLITE_API".len(), "SQLITE_PRIVATE");
    }
    Ok(())
}

/// Declarations of the renamed functions.
fn prototypes(text: &str) -> Result<String> {
    let mut all = String::new();
    let names = BTREE.iter().map(|name| (format!("sqlite3Btree{name}"), "btree.c"));
    let others = OTHERS.iter().map(|(name, file)| ((*name).to_owned(), *file));
    for (name, file) in names.chain(others) {
        let (line, _) = definition(text, file, &format!("{PREFIX}{name}"))?;
        let body = text[line..].find('{').ok_or_else(|| format!("{name} has no body"))?;
        all.push_str(text[line..line + body].trim_end());
        all.push_str(";\n");
    }
    Ok(all)
}
