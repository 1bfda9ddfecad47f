//! What a commit promises, in both engines.

/// What a commit promises when it returns.
///
/// A crash leaves in every mode a *prefix* of the commits: if one survives, all before it do. No
/// mode can damage a store.
///
/// | | killed process | power loss |
/// |---|---|---|
/// | `Durable` | kept | kept |
/// | `Eventual` | kept | a prefix is kept |
/// | `None` | in the tree kept, in the lsm engine a prefix | a prefix is kept |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Nothing is done for the commit before the next durable one, a call of `sync`, or the close.
    ///
    /// In the tree engine this holds for the creation of a store, too. The lsm engine keeps such
    /// commits in its own memory, and hands them to the system with a later one.
    None,
    /// The commit is handed to the system, so it survives the death of the process. In the tree
    /// engine a background thread flushes it soon; in the lsm engine it is flushed with the log
    /// segment that it is in.
    Eventual,
    /// The commit is on stable storage. It costs one flush, shared by all threads that commit at
    /// the same time.
    #[default]
    Durable,
}
