//! Callbacks of calls that do not wait.

/// What is called with an answer. A waiter is also told if there will be no answer.
pub(crate) struct Reply<T>(Option<Box<dyn FnOnce(crate::Result<T>) + Send>>);

impl<T> Reply<T> {
    pub(crate) fn new(call: impl FnOnce(crate::Result<T>) + Send + 'static) -> Self {
        Self(Some(Box::new(call)))
    }

    /// Answers. A panic of the callback ends here: its message was printed, and it must not affect
    /// others.
    pub(crate) fn send(mut self, answer: crate::Result<T>) {
        self.call(answer);
    }

    fn call(&mut self, answer: crate::Result<T>) {
        if let Some(call) = self.0.take() {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(answer)));
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        let reason = "the store was closed, or panicked, before it answered".to_string();
        self.call(Err(crate::Error::Poisoned { reason }));
    }
}
