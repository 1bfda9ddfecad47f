//! A data file on the simulated disk.

use std::io;

use super::super::file::{Access, DataFile, Map, Shared};
use super::super::unix::evidence::mix;
use super::fault::{Fault, Kept, Operation};
use super::image::Event;
use super::machine::{SimSystem, State};

/// One open file of one process.
pub(super) struct SimFile {
    system: SimSystem,
    file: usize,
    may_write: bool,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.system.state().count_handles(self.file, -1);
    }
}

impl SimFile {
    /// A handle that is counted already.
    pub(super) fn new(system: &SimSystem, file: usize, may_write: bool) -> Self {
        Self { system: system.clone(), file, may_write }
    }

    fn check_may_write(&self) -> io::Result<()> {
        if self.may_write { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EBADF)) }
    }

    /// A flush, which may fail.
    fn flush(&self, event: Event) -> io::Result<()> {
        let mut state = self.system.state();
        self.system.process.check()?;
        match state.faults.next(Operation::Sync) {
            Some(fault) => {
                let seed = state.faults.random().next();
                state.note(Event::SyncFailed { file: self.file, kept: fault.kept, seed });
                Err(fault.error())
            }
            None => {
                state.note(event);
                Ok(())
            }
        }
    }

    /// Puts bytes in the cache and on their way to the disk.
    fn put(&self, state: &mut State, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        state.memory(self.file).write(offset, bytes)?;
        state.note(Event::Write { file: self.file, offset, bytes: bytes.into() });
        Ok(())
    }
}

impl DataFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.system.begin(Operation::Length)?.memory(self.file).len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.system.begin(Operation::Read)?;
        state.memory(self.file).read(offset, buffer)
    }

    fn write_at(&self, parts: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.check_may_write()?;
        let bytes = parts.iter().fold(Vec::new(), |mut all, part| {
            all.extend_from_slice(part);
            all
        });
        let mut state = self.system.state();
        self.system.process.check()?;
        if let Some(fault) = state.faults.next(Operation::Write) {
            let kept = match fault.kept {
                Kept::None => 0,
                Kept::Some => state.faults.random().below(bytes.len() as u64 + 1) as usize,
                Kept::All => bytes.len(),
            };
            self.put(&mut state, offset, &bytes[..kept])?;
            return Err(fault.error());
        }
        let old = state.memory(self.file).len();
        let fits = old.saturating_add(state.room()).saturating_sub(offset);
        if fits < bytes.len() as u64 && offset + bytes.len() as u64 > old {
            self.put(&mut state, offset, &bytes[..fits as usize])?;
            return Err(Fault::full(Kept::Some).error());
        }
        self.put(&mut state, offset, &bytes)
    }

    fn sync_range(&self, offset: u64, len: usize, meanwhile: &mut dyn FnMut()) -> io::Result<()> {
        meanwhile();
        self.flush(Event::SyncRange { file: self.file, offset, len: len as u64 })
    }

    /// The system may write these bytes at any time anyway, so this call is only counted.
    fn start_writeback(&self, _offset: u64, _len: u64) {
        self.system.state().writebacks += 1;
    }

    fn sync(&self) -> io::Result<()> {
        self.flush(Event::Sync { file: self.file })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_may_write()?;
        let mut state = self.system.begin(Operation::SetLen)?;
        let old = state.memory(self.file).len();
        if len.saturating_sub(old) > state.room() {
            return Err(Fault::full(Kept::None).error());
        }
        state.memory(self.file).set_len(len)?;
        state.note(Event::SetLen { file: self.file, len });
        Ok(())
    }

    fn map(&self, _reserve: u64, _access: Access) -> io::Result<Option<Map>> {
        let mut state = self.system.begin(Operation::Map)?;
        Ok(self.system.machine.config.map.then(|| state.memory(self.file).map()))
    }

    fn share(&self, len: usize) -> io::Result<Option<Box<dyn Shared>>> {
        self.check_may_write()?;
        let mut state = self.system.begin(Operation::Map)?;
        if (len as u64) > state.memory(self.file).len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !self.system.machine.config.map {
            return Ok(None);
        }
        state.count_handles(self.file, 1);
        Ok(Some(Box::new(Stored { file: Self::new(&self.system, self.file, true), len })))
    }

    fn uptime_evidence(&self) -> Option<[u8; 24]> {
        let boot = self.system.machine.boot;
        let mut evidence = [0; 24];
        evidence[..8].copy_from_slice(&boot.to_le_bytes());
        evidence[8..16].copy_from_slice(&mix(boot).to_le_bytes());
        evidence[16..].copy_from_slice(&(self.file as u64).to_le_bytes());
        Some(evidence)
    }
}

/// The first bytes of a file, to be stored into.
struct Stored {
    file: SimFile,
    len: usize,
}

impl Shared for Stored {
    fn store(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.len), "bytes behind the end of what is shared");
        let mut state = self.file.system.state();
        // The dead store nothing.
        if self.file.system.process.check().is_ok() {
            let stored = self.file.put(&mut state, offset as u64, bytes);
            debug_assert!(stored.is_ok(), "the file has these bytes");
        }
    }
}
