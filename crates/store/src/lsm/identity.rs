//! The file by which a store is told from all others.

use std::io::{ErrorKind, IoSlice};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::files::{Directory, Name};
use crate::os::Open;
use crate::{Error, Result};

/// Two digits a byte, and the end of the line.
const LEN: usize = 33;

/// The store's identity, which is drawn and written if there is none yet. The file is whole before
/// anybody is told what it says; one that a crash has cut short is written anew.
///
/// # Errors
/// If it cannot be read or written, or says something else.
pub(super) fn of(directory: &Directory) -> Result<[u8; 16]> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(id) = find(directory)? {
        return Ok(id);
    }
    let path = directory.file(Name::Identity);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&directory.random().to_le_bytes());
    id[8..].copy_from_slice(&directory.random().to_le_bytes());
    write(directory, &path, &id).map_err(|e| Error::io("write", &path, e))?;
    Ok(id)
}

/// The store's identity, if it has one yet.
///
/// # Errors
/// If it cannot be read, or says something else.
pub(super) fn find(directory: &Directory) -> Result<Option<[u8; 16]>> {
    let path = directory.file(Name::Identity);
    match directory.system.open_data(&path, Open::Read, 0) {
        Ok(file) if file.len().map_err(|e| Error::io("read", &path, e))? >= LEN as u64 => {
            let mut text = [0; LEN];
            file.read_at(&mut text, 0).map_err(|e| Error::read(&path, 0, e))?;
            let reason = "this is not the identity of a store";
            decode(&text).map(Some).ok_or_else(|| Error::corrupt_at(&path, 0, reason))
        }
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("open", &path, e)),
        _ => Ok(None),
    }
}

fn write(directory: &Directory, path: &Path, id: &[u8; 16]) -> std::io::Result<()> {
    let text: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    match directory.system.remove(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = directory.system.open_data(path, Open::Create, directory.mode)?;
    file.write_at(&[IoSlice::new(text.as_bytes()), IoSlice::new(b"\n")], 0)?;
    file.sync()?;
    directory.system.sync_directory(path)
}

fn decode(text: &[u8; LEN]) -> Option<[u8; 16]> {
    let (digits, _) = text[..LEN - 1].as_chunks::<2>();
    let mut id = [0; 16];
    for (byte, digits) in id.iter_mut().zip(digits) {
        let digits = std::str::from_utf8(digits).ok()?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(id)
}
