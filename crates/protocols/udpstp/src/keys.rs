//! Files of shared keys.

use common::Psk;
use std::collections::HashMap;

/// Longest key, characters.
const LONGEST: usize = 64;

/// Shared keys by their numbers.
#[derive(Clone, Default)]
pub struct KeyFile(HashMap<u8, Vec<u8>>);

impl std::fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyFile({} keys)", self.0.len())
    }
}

impl KeyFile {
    /// The keys in a text: a line `id,key` for each, `#` before a comment. A text without such a
    /// line is the key of the number 0.
    ///
    /// # Errors
    /// A sentence about the first line that is none.
    pub fn read(text: &str) -> Result<Self, String> {
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let entry = |line: &str| {
            let (id, key) = line.split_once(',')?;
            Some((id.trim().parse::<u8>().ok()?, key.trim().to_owned()))
        };
        let mut keys = HashMap::new();
        if lines().count() == 1
            && let Some(only) = lines().next()
            && entry(only).is_none()
        {
            keys.insert(0, checked(only)?);
            return Ok(KeyFile(keys));
        }
        for line in lines() {
            let (id, key) = entry(line)
                .ok_or("a line of the key file is no key: each takes ID,KEY with an ID of 0 to 255")?;
            keys.insert(id, checked(&key)?);
        }
        if keys.is_empty() {
            Err("the key file has no key: a line takes ID,KEY".to_owned())
        } else {
            Ok(KeyFile(keys))
        }
    }

    /// The keys that a configuration has.
    pub(crate) fn of(psk: &Psk) -> Result<Self, String> {
        KeyFile::read(&String::from_utf8_lossy(psk.bytes()))
    }

    /// The key of this number.
    pub fn key(&self, id: u8) -> Option<&[u8]> {
        self.0.get(&id).map(Vec::as_slice)
    }
}

fn checked(key: &str) -> Result<Vec<u8>, String> {
    match key.len() {
        1..=LONGEST => Ok(key.as_bytes().to_vec()),
        n => Err(format!("a key of UDPSTP has 1 to {LONGEST} characters, not {n}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_keys_and_a_lone_text_is_one() {
        let file = KeyFile::read("# two\n1,first key\n 255 , last,one \n\n").unwrap();
        assert_eq!((file.key(1), file.key(255)), (Some(&b"first key"[..]), Some(&b"last,one"[..])));
        assert_eq!(file.key(0), None);
        assert_eq!(KeyFile::read("netcaliper-key\n").unwrap().key(0), Some(&b"netcaliper-key"[..]));
        assert!(KeyFile::read("").is_err() && KeyFile::read("1,a\nb").is_err());
        assert!(KeyFile::read(&format!("1,{}", "x".repeat(65))).unwrap_err().contains("64"));
        assert!(!format!("{file:?}").contains("first"));
    }
}
