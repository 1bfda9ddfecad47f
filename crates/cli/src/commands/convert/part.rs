//! A database that is being made beside its place, in a folder whose name ends in `.part`: it is
//! gone on with there, however the command that began it ended, and takes its place when it is
//! complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use crate::draft::check_vacant;
use crate::exit::Failure;
use crate::wait;

/// What the database is made of. Locked while a command works on it.
const SOURCE: &str = "SOURCE";
/// How far it came, where the database itself does not show that.
const LIST: &str = "TABLES";
/// The database.
const NEW: &str = "new";

/// The folder.
pub(super) struct Part {
    folder: PathBuf,
    new: PathBuf,
    /// Keeps others away.
    _source: File,
}

impl Part {
    /// Takes the folder up where it was left, if what is in it is made of the same, which `about`
    /// says in words that no other source has.
    ///
    /// # Errors
    /// If it is made of something else: that is not thrown away. If another command works on it.
    pub(super) fn begin(to: &Path, about: &str) -> Result<Self, Failure> {
        // Without a slash at its end.
        let mut folder = to.components().collect::<PathBuf>().into_os_string();
        folder.push(".part");
        let folder = PathBuf::from(folder);
        let (new, note) = (folder.join(NEW), folder.join(SOURCE));
        if !note.exists() {
            check_vacant(&folder)?;
        }
        let refused = |error: io::Error| Failure::io("write to", folder.display(), &error);
        fs::create_dir_all(&folder).map_err(refused)?;
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).open(&note);
        let mut source = opened.map_err(refused)?;
        wait::lock(&source, &note)?;
        let mut there = String::new();
        source.read_to_string(&mut there).map_err(refused)?;
        if there != about {
            // One that was ended before it had anything, or after it was complete, has no such
            // folder.
            if new.exists() {
                return Err(other_source(&folder, &there, about));
            }
            write(&mut source, about).map_err(refused)?;
        }
        fs::create_dir_all(&new).map_err(refused)?;
        Ok(Self { folder, new, _source: source })
    }

    /// Where the database is made.
    pub(super) fn path(&self) -> &Path {
        &self.new
    }

    /// A file that says how far it came.
    pub(super) fn list(&self) -> PathBuf {
        self.folder.join(LIST)
    }

    /// What cannot be removed is left: there is another failure to tell of.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }

    /// Says of a failure that the work done so far is not lost.
    pub(super) fn kept(&self, failure: Failure) -> Failure {
        let folder = self.folder.display();
        failure.and(&format!(
            "what came over so far is kept in {folder}: the same command goes on from there"
        ))
    }

    /// Gives what was made, at a path of the folder, its name. It must not be open.
    pub(super) fn publish(&self, made: &Path, to: &Path) -> Result<(), Failure> {
        let renamed = || -> io::Result<()> {
            File::open(&self.new)?.sync_all()?;
            fs::rename(made, to)?;
            let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        renamed().map_err(|error| Failure::io("give a name to", to.display(), &error))?;
        self.remove();
        Ok(())
    }
}

/// In words, what tells a state of a store from others.
pub(super) fn state(store: Option<[u8; 16]>, commit: u64) -> String {
    let store = store.map(|id| format!("store {:032x}, ", u128::from_be_bytes(id)));
    format!("{}commit {commit}", store.unwrap_or_default())
}

/// Writes a text in place of what a file has.
fn write(file: &mut File, text: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn other_source(folder: &Path, there: &str, about: &str) -> Failure {
    let folder = folder.display();
    Failure::other(format!(
        "{folder} was begun with something else, or its source has changed since:\n  then: \
         {there}\n  now:  {about}\nremove that folder to begin anew, or choose another place for \
         the new database"
    ))
}
