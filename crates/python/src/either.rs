//! What there is of each engine: of the tree, or of the log-structured one.

/// One thing of the tree engine, or its like of the log-structured one.
#[derive(Clone)]
pub(crate) enum Either<T, L> {
    Tree(T),
    Log(L),
}

/// Runs an expression over either.
macro_rules! either {
    ($either:expr, |$it:pat_param| $body:expr) => {
        match $either {
            $crate::either::Either::Tree($it) => $body,
            $crate::either::Either::Log($it) => $body,
        }
    };
}
pub(crate) use either;
