//! Zip archives whose members are stored, as torch writes them; zip64 too.
//!
//! Source: PKWARE's APPNOTE. The central directory decides, and each local header has to
//! agree with it. Checksums are not looked at: torch itself writes files without real ones
//! (`torch.serialization.set_crc32_options(False)`) and reads them back.

use crate::cursor::Cursor;
use crate::error::{refuse, Refusal, Result};
use std::collections::HashMap;
use std::ops::Range;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const LOCATOR64: u32 = 0x0706_4b50;
const END64: u32 = 0x0606_4b50;

/// Bytes of the end record without its comment, of its zip64 locator, of a central header.
const END_SIZE: usize = 22;
const LOCATOR_SIZE: usize = 20;
const CENTRAL_SIZE: usize = 46;

/// General purpose bits for encryption: 0, 6 (strong) and 13 (masked headers).
const ENCRYPTED: u16 = 0x2041;

/// A member by the central directory.
struct Entry {
    name: String,
    flags: u16,
    method: u16,
    packed: u64,
    size: u64,
    offset: u64,
}

/// All members' bytes by name; folders are left out.
pub(super) fn members(bytes: &[u8]) -> Result<HashMap<String, &[u8]>> {
    let (count, directory) = directory(bytes)?;
    let mut cursor = Cursor::new(&bytes[directory.clone()]);
    let count = cursor.bounded(count, CENTRAL_SIZE, "the zip directory")?;
    let mut members = HashMap::new();
    for _ in 0..count {
        let entry = Entry::read(&mut cursor)?;
        let data = entry.data(&bytes[..directory.start])?;
        if members.insert(entry.name.clone(), data).is_some() {
            return refuse(format!("zip member {:?} occurs twice", entry.name));
        }
    }
    if cursor.remaining() > 0 {
        return refuse("the zip directory holds more members than it states");
    }
    members.retain(|name, _| !name.ends_with('/'));
    Ok(members)
}

/// How many members the directory states, and where it lies.
fn directory(bytes: &[u8]) -> Result<(u64, Range<usize>)> {
    let at = find_end(bytes)?;
    let mut cursor = Cursor::new(&bytes[at + 4..]);
    let disks = [cursor.u16("disk")?, cursor.u16("disk")?];
    let counts = [cursor.u16("count")?, cursor.u16("count")?];
    let (size, offset) = (cursor.u32("size")?, cursor.u32("offset")?);
    // Where zip64 holds the numbers, the fields here may be all ones.
    let located = zip64(bytes, at)?;
    let one_disk = disks == [0, 0] || located.is_some() && disks == [u16::MAX; 2];
    if !one_disk || counts[0] != counts[1] {
        return refuse("a zip in several parts is not read");
    }
    if let Some(located) = located {
        return Ok(located);
    }
    let start = ends_at(u64::from(offset), u64::from(size), at)?;
    Ok((u64::from(counts[0]), start))
}

/// The directory has to end where the end record starts: nothing lies before or between.
fn ends_at(offset: u64, size: u64, end: usize) -> Result<Range<usize>> {
    match usize::try_from(offset) {
        Ok(start) if offset.checked_add(size) == Some(end as u64) => Ok(start..end),
        _ => refuse("the zip directory does not end where its end record starts"),
    }
}

/// The last end record whose comment reaches exactly to the file's end.
fn find_end(bytes: &[u8]) -> Result<usize> {
    let last = bytes.len().checked_sub(END_SIZE);
    let last = last.ok_or_else(|| Refusal::new("the file is too short for a zip"))?;
    let first = last.saturating_sub(usize::from(u16::MAX));
    let fits = |&at: &usize| {
        let comment = u16::from_le_bytes([bytes[at + 20], bytes[at + 21]]);
        bytes[at..].starts_with(&END.to_le_bytes()) && at + usize::from(comment) == last
    };
    let found = (first..=last).rev().find(fits);
    found.ok_or_else(|| Refusal::new("the zip directory is missing: is the file cut short?"))
}

/// The zip64 end record, if a locator stands before the end record at `end`.
fn zip64(bytes: &[u8], end: usize) -> Result<Option<(u64, Range<usize>)>> {
    let Some(locator) = end.checked_sub(LOCATOR_SIZE) else {
        return Ok(None);
    };
    let mut cursor = Cursor::new(&bytes[locator..]);
    if cursor.u32("locator")? != LOCATOR64 {
        return Ok(None);
    }
    let disk = cursor.u32("disk")?;
    let at = cursor.u64("offset")?;
    if disk != 0 || cursor.u32("disks")? > 1 {
        return refuse("a zip in several parts is not read");
    }
    let at = usize::try_from(at).ok().filter(|&at| at < locator);
    let at = at.ok_or_else(|| Refusal::new("the zip64 end record lies past the end"))?;
    end64(&bytes[at..], at).map(Some)
}

fn end64(bytes: &[u8], at: usize) -> Result<(u64, Range<usize>)> {
    let mut cursor = Cursor::new(bytes);
    if cursor.u32("the zip64 end record")? != END64 {
        return refuse("the zip64 end record is missing");
    }
    cursor.take(12, "size and versions")?;
    let disks = cursor.u64("disks")?;
    let counts = [cursor.u64("count")?, cursor.u64("count")?];
    if disks != 0 || counts[0] != counts[1] {
        return refuse("a zip in several parts is not read");
    }
    let (size, offset) = (cursor.u64("size")?, cursor.u64("offset")?);
    Ok((counts[0], ends_at(offset, size, at)?))
}

impl Entry {
    fn read(cursor: &mut Cursor) -> Result<Self> {
        if cursor.u32("a zip header")? != CENTRAL {
            return refuse("the zip directory is damaged");
        }
        cursor.take(4, "versions")?;
        let (flags, method) = (cursor.u16("flags")?, cursor.u16("method")?);
        cursor.take(8, "time and checksum")?;
        let sizes = [cursor.u32("size")?, cursor.u32("size")?];
        let lengths = [
            cursor.u16("length")?,
            cursor.u16("length")?,
            cursor.u16("length")?,
        ];
        if cursor.u16("disk")? != 0 {
            return refuse("a zip in several parts is not read");
        }
        cursor.take(6, "attributes")?;
        let offset = cursor.u32("offset")?;
        let name = member_name(cursor.take(lengths[0].into(), "a zip name")?)?;
        let extra = cursor.take(lengths[1].into(), "a zip extra field")?;
        cursor.take(lengths[2].into(), "a zip comment")?;
        let [size, packed, offset] = widen([sizes[1], sizes[0], offset], extra)?;
        Ok(Self {
            name,
            flags,
            method,
            packed,
            size,
            offset,
        })
    }

    /// The member's bytes in `before`, which is what lies before the directory.
    fn data<'a>(&self, before: &'a [u8]) -> Result<&'a [u8]> {
        self.check_storage()?;
        let start = usize::try_from(self.offset).ok();
        let local = start.and_then(|start| before.get(start..));
        let mut cursor = Cursor::new(local.ok_or_else(|| self.trouble("lies past the directory"))?);
        if cursor.u32("a local header")? != LOCAL {
            return Err(self.trouble("has no local header"));
        }
        cursor.take(2, "version")?;
        let (flags, method) = (cursor.u16("flags")?, cursor.u16("method")?);
        cursor.take(16, "time, checksum, sizes")?;
        let lengths = [cursor.u16("length")?, cursor.u16("length")?];
        let name = cursor.take(lengths[0].into(), "a zip name")?;
        cursor.take(lengths[1].into(), "a zip extra field")?;
        if name != self.name.as_bytes() || method != self.method || flags & ENCRYPTED != 0 {
            return Err(self.trouble("differs from its local header"));
        }
        let size = cursor.bounded(self.size, 1, &format!("zip member {:?}", self.name))?;
        cursor.take(size, "a zip member")
    }

    fn check_storage(&self) -> Result<()> {
        if self.flags & ENCRYPTED != 0 {
            return Err(self.trouble("is encrypted"));
        }
        match self.method {
            0 if self.packed == self.size => Ok(()),
            0 => Err(self.trouble("is stored with two different sizes")),
            8 => Err(self.trouble("is deflated; torch stores its members")),
            method => Err(self.trouble(&format!("is packed by method {method}"))),
        }
    }

    fn trouble(&self, what: &str) -> Refusal {
        Refusal::new(format!("zip member {:?} {what}", self.name))
    }
}

/// A relative path without tricks; torch writes no other.
fn member_name(bytes: &[u8]) -> Result<String> {
    let name = std::str::from_utf8(bytes);
    let name = name.map_err(|_| Refusal::new("a zip member's name is not UTF-8"))?;
    let drive = name.as_bytes().get(1) == Some(&b':');
    let climbs = name.split('/').any(|part| part == "..");
    if name.starts_with('/') || drive || climbs || name.contains('\\') || name.contains('\0') {
        return refuse(format!("zip member {name:?} has an unsafe path"));
    }
    Ok(name.to_owned())
}

/// Takes the values that do not fit in 32 bits from extra field 1, where they stand in order.
fn widen(narrow: [u32; 3], extra: &[u8]) -> Result<[u64; 3]> {
    let mut wide = narrow.map(u64::from);
    if !narrow.contains(&u32::MAX) {
        return Ok(wide);
    }
    let mut cursor = Cursor::new(zip64_extra(extra)?);
    for value in wide
        .iter_mut()
        .filter(|value| **value == u64::from(u32::MAX))
    {
        *value = cursor.u64("a zip64 extra field")?;
    }
    Ok(wide)
}

fn zip64_extra(extra: &[u8]) -> Result<&[u8]> {
    let mut cursor = Cursor::new(extra);
    while cursor.remaining() >= 4 {
        let (id, length) = (cursor.u16("id")?, cursor.u16("length")?);
        let field = cursor.take(length.into(), "a zip extra field")?;
        if id == 1 {
            return Ok(field);
        }
    }
    refuse("a zip64 extra field is missing")
}

#[cfg(test)]
mod tests;
