//! What a database is opened with. Options of LevelDB that shape its files are accepted and have no
//! meaning here.

use std::cmp::Ordering;
use std::sync::Arc;

/// The comparator that is used where none is given.
pub(crate) const BYTEWISE: &[u8] = b"leveldb.BytewiseComparator";
/// The variable that chooses the engine of a database that is made.
const ENGINE_VARIABLE: &str = "HEDGEROW_LEVELDB_ENGINE";
/// What LevelDB takes for its cache and its buffer, unless it is told otherwise.
const CACHE_BYTES: usize = 8 << 20;
const WRITE_BUFFER_BYTES: usize = 4 << 20;

/// The engine of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One file, a B+tree that counts.
    Tree,
    /// A folder of logs and sorted tables.
    #[default]
    Lsm,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Lsm => "lsm",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        [Self::Tree, Self::Lsm].into_iter().find(|kind| kind.name() == name)
    }
}

/// How keys are ordered.
#[derive(Clone)]
pub(crate) struct Comparator {
    pub(crate) name: Vec<u8>,
    /// None for bytewise order.
    pub(crate) compare: Option<Arc<Compare>>,
}

pub(crate) type Compare = dyn Fn(&[u8], &[u8]) -> Ordering + Send + Sync;

impl Default for Comparator {
    fn default() -> Self {
        Self { name: BYTEWISE.to_vec(), compare: None }
    }
}

impl Comparator {
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare.as_ref().map_or_else(|| a.cmp(b), |compare| compare(a, b))
    }
}

/// Where lines about an open database go.
pub(crate) type Log = dyn Fn(&str) + Send + Sync;

/// How a database is opened.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) comparator: Comparator,
    pub(crate) create: bool,
    pub(crate) error_if_exists: bool,
    /// None for a file `LOG` in the folder.
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) write_buffer: usize,
    pub(crate) cache: usize,
    /// The engine of a database that is made; none was chosen.
    pub(crate) engine: Option<Kind>,
    /// Whether the files lie in memory: then nothing is flushed.
    pub(crate) in_memory: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            comparator: Comparator::default(),
            create: false,
            error_if_exists: false,
            log: None,
            write_buffer: WRITE_BUFFER_BYTES,
            cache: CACHE_BYTES,
            engine: None,
            in_memory: false,
        }
    }
}

impl Options {
    /// The engine of a database that is made now. Only the tree takes other orders than bytewise.
    ///
    /// # Errors
    /// The value of the environment variable, where it names no engine.
    pub(crate) fn kind(&self) -> Result<Kind, String> {
        let told = match (self.engine, std::env::var(ENGINE_VARIABLE)) {
            (Some(kind), _) => kind,
            (None, Ok(name)) => Kind::of_name(&name).ok_or_else(|| {
                format!("{ENGINE_VARIABLE}={name}: the engines are \"tree\" and \"lsm\"")
            })?,
            (None, Err(_)) => Kind::default(),
        };
        Ok(if self.comparator.compare.is_some() { Kind::Tree } else { told })
    }

    /// How much memory the log-structured engine takes at most: what it takes by default, or more.
    /// Blocks stand in the system's cache, so this is for new entries and what finds blocks.
    pub(crate) fn memory(&self) -> u64 {
        // Its buffer of new entries is a sixteenth of it.
        let buffers = self.write_buffer.saturating_mul(16);
        (buffers.saturating_add(self.cache) as u64).clamp(256 << 20, 1 << 30)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_made_on_the_lsm_engine_unless_something_else_is_asked_for() {
        let kind = |engine, compare: Option<Arc<Compare>>| {
            let comparator = Comparator { compare, ..Comparator::default() };
            Options { engine, comparator, ..Options::default() }.kind().unwrap()
        };
        let backwards: Arc<Compare> = Arc::new(|a, b| b.cmp(a));
        assert_eq!(kind(None, None), Kind::Lsm);
        assert_eq!(kind(Some(Kind::Tree), None), Kind::Tree);
        assert_eq!(kind(None, Some(Arc::clone(&backwards))), Kind::Tree);
        assert_eq!(kind(Some(Kind::Lsm), Some(backwards)), Kind::Tree);
    }
}
