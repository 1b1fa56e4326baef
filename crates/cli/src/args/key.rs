//! Keys: the files that they lie in.

use crate::args::{KeyArgs, TargetArgs, values};
use crate::protocols;
use common::auth::{DRAWN, unhex};
use common::keys::{Named, PUBLIC, PrivateKey, VERBS};
use common::{Keyring, Psk, Rights};
use console::error::CliError;
use console::file;
use std::collections::HashSet;
use std::fmt::Display;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Before the 64 hexadecimal digits of a private key.
pub(crate) const PRIVATE: &str = "netcaliper-key-1:";
/// Longest file of keys that is read, bytes.
const LONGEST_FILE: u64 = 1 << 20;
const UNKNOWN_RIGHT: &str = "behind a key stand its rights: rate=RATE, time=TIME, verbs=VERB,…, exclusive=yes or no, bytes=SIZE of a day";
/// Longest name of a key, characters.
const LONGEST_NAME: usize = 64;

/// 32 bytes of the system's randomness.
pub(crate) fn drawn() -> Result<[u8; 32], CliError> {
    let mut drawn = [0; 32];
    match runtime::random(&mut drawn) {
        true => Ok(drawn),
        false => Err(CliError::failed("this system has no randomness to draw a key from")),
    }
}

/// The keys of a client. A key that is set and cannot be used is an error, never "no key".
pub(crate) fn of_client(args: &TargetArgs) -> Result<Keyring, CliError> {
    let mut keys = shared(&args.key)?;
    let (given, protocol) = (keys.shared.len(), args.protocol);
    Err(CliError::usage(match (&args.key.key_file, &args.server_key[..]) {
        _ if given > 1 => {
            format!("the key file of a client holds one key, not {given}: give it the line of its own key")
        }
        (None, []) => return Ok(keys),
        (None, _) => "--server-key goes with a private key of this end: give --key-file (`netcaliper key new --pair FILE` makes \
                      one)"
            .to_owned(),
        (Some(_), []) => "--key-file goes with the public key of the server: give --server-key, as `netcaliper key public FILE` \
                          prints it there"
            .to_owned(),
        (Some(_), _) if !keys.is_empty() => {
            "a shared key and --key-file were given: a client proves one of them, so leave --psk-file, NETCALIPER_PSK_FILE and \
             NETCALIPER_PSK or --key-file out"
                .to_owned()
        }
        (Some(_), _) if protocol != protocols::NATIVE => {
            format!("key pairs are for the native protocol, not for {protocol}: leave --key-file out")
        }
        (Some(file), peers) => {
            keys.own = Some(private_in(file, args.key.insecure_key_file)?);
            keys.peers = peers.to_vec();
            return Ok(keys);
        }
    }))
}

/// The keys of a server.
pub(crate) fn of_server(args: &KeyArgs, client_keys: Option<&Path>) -> Result<Keyring, CliError> {
    let mut keys = shared(args)?;
    Err(CliError::usage(match (&args.key_file, client_keys) {
        (None, None) => return Ok(keys),
        (Some(own), Some(clients)) => {
            keys.own = Some(private_in(own, args.insecure_key_file)?);
            let text = String::from_utf8(read(clients, true)?).unwrap_or_default();
            let list = List::parse(clients, &text)?;
            if list.shared.is_empty() && !list.public.is_empty() {
                keys.peers = list.public;
                return Ok(keys);
            }
            let why = "holds no list of public keys: a line is NAME netcaliper-pub-1:… and the key's rights";
            return Err(wrong(clients, why));
        }
        (Some(_), None) => {
            "--key-file goes with the public keys of the clients: give --client-keys, a file with a line NAME netcaliper-pub-1:… \
             for each"
        }
        (None, Some(_)) => {
            "--client-keys goes with a private key of this server: give --key-file (`netcaliper key new --pair FILE` makes one)"
        }
    }))
}

/// What is wrong with a file.
pub(crate) fn wrong(path: &Path, why: impl Display) -> CliError {
    CliError::usage(format!("{} {why}", path.display()))
}

/// The shared keys from their file or from the environment.
fn shared(args: &KeyArgs) -> Result<Keyring, CliError> {
    match (&args.psk_file, std::env::var_os("NETCALIPER_PSK")) {
        (Some(path), _) => shared_in(path, &read(path, args.insecure_key_file)?),
        // A key is bytes, in whatever encoding.
        (None, Some(key)) => shared_in(Path::new("NETCALIPER_PSK"), key.as_encoded_bytes()),
        (None, None) => Ok(Keyring::default()),
    }
}

/// One shared key, or a list of them; `path` is where they were.
fn shared_in(path: &Path, bytes: &[u8]) -> Result<Keyring, CliError> {
    let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| is_list(text)) else {
        return one(path, bytes).map(|key| Keyring::of(Some(key)));
    };
    let list = List::parse(path, text)?;
    if !list.public.is_empty() {
        return Err(wrong(path, "holds public keys: a server takes these with --client-keys"));
    }
    Ok(Keyring { shared: list.shared, ..Keyring::default() })
}

/// The shared keys in a file.
#[cfg(feature = "fleet")]
pub(crate) fn keys_in(path: &Path, insecure: bool) -> Result<Keyring, CliError> {
    shared_in(path, &read(path, insecure)?)
}

/// The one shared key in a file.
pub(crate) fn key_in(path: &Path, insecure: bool) -> Result<Psk, CliError> {
    let bytes = read(path, insecure)?;
    if std::str::from_utf8(&bytes).is_ok_and(is_list) {
        return Err(wrong(path, "is a list of keys: one key alone is wanted"));
    }
    one(path, &bytes)
}

fn one(path: &Path, bytes: &[u8]) -> Result<Psk, CliError> {
    let wrong = |why: String| CliError::usage(format!("{}: {why}", path.display()));
    if bytes.starts_with(PRIVATE.as_bytes()) {
        return Err(wrong("a private key is given with --key-file".to_owned()));
    }
    Psk::new(bytes).map_err(wrong)
}

pub(crate) fn private_in(path: &Path, insecure: bool) -> Result<PrivateKey, CliError> {
    let text = String::from_utf8(read(path, insecure)?).unwrap_or_default();
    let key = text.trim_end().strip_prefix(PRIVATE).and_then(unhex);
    key.map(PrivateKey).ok_or_else(|| {
        let makes = "`netcaliper key new --pair FILE` makes one";
        wrong(
            path,
            format_args!("holds no private key, which is {PRIVATE} and 64 hexadecimal digits: {makes}"),
        )
    })
}

/// What is in a file of keys, which other users must not be able to read unless `insecure` says
/// that they may.
fn read(path: &Path, insecure: bool) -> Result<Vec<u8>, CliError> {
    let unread = |e| CliError::usage(format!("cannot read the key from {}: {e}", path.display()));
    let file = File::open(path).map_err(unread)?;
    if !insecure && file::is_world_readable(&file.metadata().map_err(unread)?) {
        return Err(CliError::usage(format!(
            "every user of this host can read the key file {0}: `chmod 600 {0}` mends that (--insecure-key-file uses it \
             as it is)",
            path.display()
        )));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST_FILE + 1).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() as u64 > LONGEST_FILE {
        return Err(wrong(path, "is too long for a file of keys: 1 MiB at most"));
    }
    Ok(bytes)
}

/// The lines of a list: its number, its words. Empty lines and those that begin with `#` say
/// nothing.
fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let said = |(_, words): &(usize, Vec<&str>)| words.first().is_some_and(|word| !word.starts_with('#'));
    (1..).zip(text.lines().map(|line| line.split_whitespace().collect())).filter(said)
}

/// Whether a file holds a list of keys, each with its name, and not one key alone: a line has a
/// drawn or public key as its second word.
fn is_list(text: &str) -> bool {
    let drawn = |word: &&str| word.starts_with(DRAWN) || word.starts_with(PUBLIC);
    lines(text).any(|(_, words)| words.get(1).is_some_and(drawn))
}

/// A list of keys.
#[derive(Debug, Default)]
struct List {
    shared: Vec<Named<Psk>>,
    public: Vec<Named<[u8; 32]>>,
}

impl List {
    /// Reads a list: `NAME KEY [RIGHT=VALUE …]` in each line. No sentence repeats what may be a
    /// secret.
    fn parse(path: &Path, text: &str) -> Result<Self, CliError> {
        let (mut list, mut names) = (List::default(), HashSet::new());
        for (number, words) in lines(text) {
            let wrong = |why: String| CliError::usage(format!("{}, line {number}: {why}", path.display()));
            let [own, key, rights @ ..] = &words[..] else {
                return Err(wrong("a name and a key are wanted: NAME KEY [RIGHT=VALUE …]".to_owned()));
            };
            let own = if *own == "-" { String::new() } else { name(own).map_err(wrong)? };
            if !names.insert(own.clone()) {
                return Err(wrong(format!("{own:?} is the name of another key, too: each needs its own")));
            }
            let rights = self::rights(rights).map_err(wrong)?;
            match (key.strip_prefix(DRAWN), key.strip_prefix(PUBLIC)) {
                (Some(digits), _) if unhex::<32>(digits).is_some() => {
                    let key = Psk::new(key.as_bytes()).map_err(wrong)?;
                    list.shared.push(Named { name: own, key, rights });
                }
                (_, Some(digits)) if let Some(key) = unhex(digits) => {
                    list.public.push(Named { name: own, key, rights });
                }
                _ => {
                    return Err(wrong(format!(
                        "the key is {DRAWN} or {PUBLIC} and 64 hexadecimal digits: `netcaliper key new` makes one"
                    )));
                }
            }
        }
        Ok(list)
    }
}

/// The name of a key.
pub(crate) fn name(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_alphanumeric() || "._-@+".contains(c);
    let secret = [DRAWN, PRIVATE].iter().any(|kind| text.starts_with(kind));
    let fits = (1..=LONGEST_NAME).contains(&text.chars().count()) && text.chars().all(good) && text != "-";
    if fits && !secret {
        return Ok(text.to_owned());
    }
    Err(format!(
        "the name of a key is 1 to {LONGEST_NAME} letters, digits and characters of ._-@+, and not - alone"
    ))
}

/// The rights of a key from the words behind it.
fn rights(words: &[&str]) -> Result<Rights, String> {
    let mut rights = Rights::default();
    let mut seen = HashSet::new();
    for word in words {
        let (right, value) = word.split_once('=').unwrap_or((word, ""));
        if !seen.insert(right) {
            return Err(format!("the right {right:?} is said twice"));
        }
        let named = |why: String| format!("{right}={value}: {why}");
        match right {
            "rate" => rights.rate = Some(values::limit(value).map_err(named)?),
            "time" => rights.time_ns = Some(values::duration(value).map_err(named)?),
            "bytes" => rights.bytes = Some(values::bytes(value).map_err(named)?),
            "verbs" => {
                let verb = |word: &str| VERBS.into_iter().find(|verb| *verb == word);
                let verbs: Option<Vec<_>> = value.split(',').map(verb).collect();
                rights.verbs = Some(verbs.ok_or_else(|| {
                    named(format!("a verb is one of {}, with commas between several", VERBS.join(", ")))
                })?);
            }
            "exclusive" => {
                rights.exclusive = match value {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(named("yes or no is wanted".to_owned())),
                };
            }
            _ => return Err(UNKNOWN_RIGHT.to_owned()),
        }
    }
    Ok(rights)
}

/// A server's public key: `KEY` for all servers, `HOST=KEY` for one.
pub(crate) fn server_key(text: &str) -> Result<Named<[u8; 32]>, String> {
    let (name, key) = text.rsplit_once('=').unwrap_or(("*", text));
    let key = key.strip_prefix(PUBLIC).and_then(unhex).filter(|_| !name.is_empty()).ok_or_else(|| {
        format!("a server's key is [HOST=]{PUBLIC} and 64 hexadecimal digits, as `netcaliper key public FILE` prints it there")
    })?;
    Ok(Named { name: name.to_owned(), key, rights: Rights::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<List, String> {
        List::parse(Path::new("keys"), text).map_err(|error| error.text)
    }

    #[test]
    fn a_list_has_a_name_a_key_and_rights_in_each_line() {
        let (one, two) = ("01".repeat(32), "02".repeat(32));
        let text = format!(
            "# who may measure here\n\nalice {DRAWN}{one}\nbob.2026 {DRAWN}{two} rate=100M time=1m bytes=1Gi verbs=ping,delay exclusive=no\n\
             - {PUBLIC}{two}\n"
        );
        assert!(
            is_list(&text)
                && !is_list("a passphrase of several words\n")
                && !is_list(&format!("{DRAWN}{one}\n"))
        );
        let list = list(&text).unwrap();
        assert_eq!((&list.shared[0].name, &list.shared[0].rights), (&"alice".to_owned(), &Rights::default()));
        let rights = Rights {
            rate: Some(100_000_000),
            time_ns: Some(60_000_000_000),
            bytes: Some(1 << 30),
            verbs: Some(vec!["ping", "delay"]),
            exclusive: false,
        };
        assert_eq!((&list.shared[1].name, &list.shared[1].rights), (&"bob.2026".to_owned(), &rights));
        assert_eq!((list.public[0].name.as_str(), list.public[0].key), ("", [2; 32]));
        assert_eq!(list.shared[1].key.handshake_key(), &[2; 32]);
    }

    #[test]
    fn what_is_wrong_with_a_list_is_said_without_the_secret() {
        let secret = "c3".repeat(32);
        for (line, why) in [
            (format!("alice {DRAWN}{secret} speed=1"), "rate=RATE, time=TIME"),
            (format!("alice {DRAWN}{secret} rate=fast"), "rate=fast"),
            (format!("alice {DRAWN}{secret} verbs=tcp,fly"), "a verb is one of tcp, connect"),
            (format!("alice {DRAWN}{secret} exclusive=perhaps"), "yes or no"),
            (format!("alice {DRAWN}{secret} time=1s time=2s"), "said twice"),
            (format!("alice {DRAWN}{secret}00"), "64 hexadecimal digits"),
            (format!("{DRAWN}{secret} alice"), "the name of a key"),
            (format!("al,ice {DRAWN}{secret}"), "the name of a key"),
            (
                format!("alice {DRAWN}{secret}\nalice {DRAWN}{secret}"),
                "line 2: \"alice\" is the name of another",
            ),
            (format!("alice passphrase {DRAWN}{secret}"), "rate=RATE"),
            ("alice".to_owned(), "a name and a key"),
        ] {
            let error = list(&line).unwrap_err();
            assert!(error.contains(why) && error.starts_with("keys, line "), "{line}: {error}");
            assert!(!error.contains(&secret[..8]), "{error}");
        }
    }

    #[test]
    fn a_server_key_may_be_that_of_one_host() {
        let key = format!("{PUBLIC}{}", "0a".repeat(32));
        assert_eq!(server_key(&key).map(|key| key.name), Ok("*".to_owned()));
        assert_eq!(
            server_key(&format!("[::1]:7={key}")).map(|key| (key.name, key.key[0])),
            Ok(("[::1]:7".to_owned(), 10))
        );
        for wrong in ["", "a=b", &key[..80], &format!("={key}")] {
            assert!(server_key(wrong).is_err(), "{wrong}");
        }
    }
}
