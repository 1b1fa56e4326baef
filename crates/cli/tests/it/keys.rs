//! Keys: how they are made, who they let in to do what, and that nothing a run leaves behind has
//! one in it.

use crate::support::files::Scratch;
use crate::support::net::both_kinds;
use crate::support::relay::forward;
use crate::support::{BIN, Done, Line, Outcome, Server, netcaliper, tcp};
use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const SMALL: &str = "-P 2 --iterations 1 --transfer 100001";

/// A new key in a file of this name, and what was printed.
fn made(scratch: &Scratch, name: &str, words: &str) -> (PathBuf, String) {
    let file = scratch.file(name);
    let done = netcaliper("key").arg("new").arg(&file).args(words).run().exits(0);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    (file, done.out)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn keyed(words: &str) -> Line {
    netcaliper("serve").args("--port 0").args(words)
}

#[test]
fn a_new_key_lets_both_ends_meet_and_no_file_is_overwritten() {
    let scratch = Scratch::new();
    let (key, out) = made(&scratch, "key", "");
    assert!(out.is_empty() && text(&key).starts_with("netcaliper-psk-1:") && text(&key).len() == 17 + 64 + 1);
    assert_ne!(text(&key), text(&made(&scratch, "other", "").0));
    let again = netcaliper("key").arg("new").arg(&key).run().exits(1);
    again.says_one_sentence().complains(&["File exists"]);
    let server = Server::start(keyed("--psk-file").arg(&key));
    let outcome = tcp(server.at()).args(SMALL).arg("--psk-file").arg(&key).outcome().moved(2, 200_002, 0);
    assert_eq!(outcome.point()["sessions"][0]["authenticated"], true);
}

#[test]
fn pairs_let_in_whom_the_other_end_knows() {
    let scratch = Scratch::new();
    let (own, of_server) = made(&scratch, "server", "--pair");
    let (alice, of_alice) = made(&scratch, "alice", "--pair --name alice");
    let (mallory, _) = made(&scratch, "mallory", "--pair");
    assert!(of_alice.starts_with("alice netcaliper-pub-1:") && of_server.starts_with("netcaliper-pub-1:"));
    let printed = netcaliper("key").arg("public").arg(&alice).args("--name alice").run().exits(0);
    assert_eq!(printed.out, of_alice);
    let clients = scratch.with("clients", &format!("# who may measure\n{of_alice}"));
    let server = Server::start(keyed("--key-file").arg(&own).arg("--client-keys").arg(&clients));
    let client = |key: &Path, server_key: &str| {
        tcp(server.at()).args(SMALL).arg("--key-file").arg(key).arg("--server-key").arg(server_key)
    };
    let outcome = client(&alice, of_server.trim()).outcome().moved(2, 200_002, 0);
    assert_eq!(outcome.point()["sessions"][0]["authenticated"], true);
    client(&alice, &format!("127.0.0.1={}", of_server.trim())).outcome().moved(2, 200_002, 0);
    let refused = |line: Line, word: &str| {
        let reason = Outcome::of(line.arg("--json").run()).exits(1).json["reason"].to_string();
        assert!(reason.contains(word), "{reason}");
    };
    refused(client(&mallory, of_server.trim()), "does not know your public key");
    let of_mallory = netcaliper("key").arg("public").arg(&mallory).run().exits(0).out;
    refused(client(&alice, of_mallory.trim()), "not the one of --server-key");
    refused(tcp(server.at()).args(SMALL), "needs a key pair: give --key-file and --server-key");
    refused(tcp(server.at()).args(SMALL).env("NETCALIPER_PSK", "correct horse"), "has no shared keys");
}

#[test]
fn keys_have_names_rights_and_successors() {
    let scratch = Scratch::new();
    let (old, _) = made(&scratch, "old", "--name lab-2026");
    let (new, _) = made(&scratch, "new", "--name lab-2027");
    let (guest, _) = made(&scratch, "guest", "--name guest");
    let rights = "rate=1M time=1s verbs=tcp exclusive=no";
    let list = format!("{}{}{} {rights}\n", text(&old), text(&new), text(&guest).trim());
    let list = scratch.key("list", list);
    let server = Server::start(keyed("--psk-file").arg(&list));
    for key in [&old, &new] {
        tcp(server.at()).args(SMALL).arg("--psk-file").arg(key).outcome().moved(2, 200_002, 0);
    }
    let as_guest = |verb: &str, words: &str| {
        netcaliper(verb).arg(server.at()).args(words).arg("--json").arg("--psk-file").arg(&guest)
    };
    let outcome = Outcome::of(as_guest("tcp", "-P 1 -t 9s").run()).exits(0);
    let changes = outcome.point()["sessions"][0]["accepted"]["changes"].to_string();
    assert!(changes.matches("limit of your key").count() == 2, "{changes}");
    for (verb, words, why) in [
        ("ping", "-n 3", "the key \\\"guest\\\" is not for ping: it is for tcp"),
        ("tcp", "--exclusive -t 1s", "does not let you exclude others: leave --exclusive out"),
    ] {
        let reason = Outcome::of(as_guest(verb, words).run()).exits(1).json["reason"].to_string();
        assert!(reason.contains(why), "{reason}");
    }
    let stopped = netcaliper("stop").arg(server.at()).arg("--psk-file").arg(&guest).run().exits(1);
    stopped.complains(&["is not for stop: it is for tcp"]);
    server.proc.hears("(the key \"guest\"): tcp");
}

#[test]
fn keys_that_cannot_be_are_told_in_one_sentence() {
    let scratch = Scratch::new();
    let (key, _) = made(&scratch, "key", "--name a");
    let (pair, public) = made(&scratch, "pair", "--pair --name a");
    let (public, digits) = (public.trim(), public.trim().split_once(' ').unwrap().1);
    let twice = scratch.key("twice", format!("{0}{0}", text(&key)));
    let two = scratch.key("two", format!("{}{}", text(&key), text(&key).replace("a net", "b net")));
    let wrong = scratch.key("wrong", format!("{} speed=9", text(&key).trim()));
    let clients = scratch.with("clients", &format!("{public}\n"));
    let client = || netcaliper("ping").arg("127.0.0.1");
    for (line, words) in [
        (keyed("--psk-file").arg(&twice), &["line 2", "is the name of another key"][..]),
        (keyed("--psk-file").arg(&wrong), &["line 1", "rate=RATE, time=TIME, verbs=VERB"]),
        (keyed("--psk-file").arg(&pair), &["a private key is given with --key-file"]),
        (keyed("--key-file").arg(&pair), &["--client-keys"]),
        (keyed("--client-keys").arg(&clients), &["--key-file", "netcaliper key new --pair FILE"]),
        (keyed("--client-keys").arg(&key).arg("--key-file").arg(&pair), &["no list of public keys"]),
        (keyed("--stamp=0 --stamp-psk-file").arg(&key), &["one key alone is wanted"]),
        (client().arg("--psk-file").arg(&two), &["one key, not 2"]),
        (client().arg("--key-file").arg(&pair), &["--server-key", "netcaliper key public FILE"]),
        (client().arg("--server-key").arg(digits), &["--key-file", "netcaliper key new --pair FILE"]),
        (client().arg("--server-key").arg("x"), &["netcaliper-pub-1:"]),
        (client().arg("--key-file").arg(&key).arg("--server-key").arg(digits), &["no private key"]),
        (
            client().arg("--key-file").arg(&pair).arg("--server-key").arg(digits).arg("--psk-file").arg(&key),
            &["a client proves one of them"],
        ),
        (
            client().args("--protocol stamp --key-file").arg(&pair).arg("--server-key").arg(digits),
            &["key pairs are for the native protocol"],
        ),
        (netcaliper("key").args("public").arg(&key), &["no private key"]),
        (netcaliper("key").args("new --name a/b").arg(scratch.file("x")), &["the name of a key"]),
    ] {
        let done = line.run().exits(2);
        assert!(words.iter().all(|word| done.err.contains(word)), "{words:?}: {}", done.tell());
        for secret in [text(&key), text(&pair)] {
            assert!(!done.err.contains(secret.trim().rsplit(':').next().unwrap()), "{}", done.tell());
        }
    }
}

/// What the first data connection through a relay behind `listener` to `server` begins with.
fn tapped(listener: TcpListener, server: u16) -> (String, mpsc::Receiver<Vec<u8>>) {
    let at = listener.local_addr().unwrap().to_string();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let tell = tell.clone();
            thread::spawn(move || {
                let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, server))?;
                let mut preamble = [0; 80];
                client.read_exact(&mut preamble)?;
                server.write_all(&preamble)?;
                if preamble[10] == 2 {
                    // When the server sends, this opening is used up.
                    let mut sent = [0; 16];
                    server.read_exact(&mut sent)?;
                    client.write_all(&sent)?;
                    let _ = tell.send(preamble.to_vec());
                }
                let (up, back) = (client.try_clone()?, server.try_clone()?);
                thread::spawn(move || forward(up, back));
                forward(server, client)
            });
        }
    });
    (at, told)
}

#[test]
fn an_opening_that_was_read_on_the_path_opens_nothing() {
    let scratch = Scratch::new();
    let (key, _) = made(&scratch, "key", "");
    let server = Server::start(keyed("--psk-file").arg(&key));
    let (at, told) = tapped(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), server.port);
    // The session lives until the last opening was tried.
    let client = tcp(&at).args("-P 1 -R -t 60s -b 1M --json").arg("--psk-file").arg(&key).spawn();
    let read = told.recv_timeout(Duration::from_secs(20)).unwrap();
    let said = |opening: &[u8]| {
        let mut link = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
        link.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        link.write_all(opening).unwrap();
        let mut said = Vec::new();
        let _ = link.read_to_end(&mut said);
        said
    };
    // As it is; and under another number (bytes 24 to 31), whether the check at the end fits or
    // not.
    let replayed = said(&read);
    assert_eq!(
        (replayed.len(), replayed[0], replayed[15]),
        (16, 0xa6, 4),
        "refused, seen before: {replayed:?}"
    );
    let mut fresh = read;
    fresh[31] ^= 0x40;
    assert!(!said(&fresh).starts_with(&[0xa5]), "a changed opening");
    let check = fresh[..76].iter().fold(0x811c_9dc5u32, |h, &b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    fresh[76..].copy_from_slice(&check.to_be_bytes());
    let forged = said(&fresh);
    assert_eq!((forged.len(), forged[0], forged[15]), (16, 0xa6, 1), "refused, not sealed: {forged:?}");
    client.signal("INT");
    let outcome = Outcome::of(client.wait()).exits(130).status("interrupted");
    assert_eq!(outcome.local()["opened"], 1);
    assert_eq!(outcome.remote_sum("/opened"), 1, "{}", outcome.tell());
}

/// Passes datagrams between clients of `near` and `server`, and keeps those of clients that open
/// flows.
fn tapped_datagrams(near: UdpSocket, server: u16) -> mpsc::Receiver<Vec<u8>> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut clients: HashMap<SocketAddr, UdpSocket> = HashMap::new();
        let mut buffer = [0; 2048];
        while let Ok((n, from)) = near.recv_from(&mut buffer) {
            let far = clients.entry(from).or_insert_with(|| {
                let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                far.connect((Ipv4Addr::LOCALHOST, server)).unwrap();
                let (to_client, from_server) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                thread::spawn(move || {
                    let mut buffer = [0; 2048];
                    while let Ok(n) = from_server.recv(&mut buffer) {
                        let _ = to_client.send_to(&buffer[..n], from);
                    }
                });
                far
            });
            let _ = far.send(&buffer[..n]);
            if n == CONTROL {
                let _ = tell.send(buffer[..n].to_vec());
            }
        }
    });
    told
}

/// Size of the datagrams that open a flow (INIT, COOKIE, OPEN of docs/protocols/native.md), the
/// offset of their kind, and the kinds.
const CONTROL: usize = 144;
const KIND: usize = 32;
const INIT: u8 = 1;
const COOKIE: u8 = 2;
const OPEN: u8 = 3;

#[test]
fn an_opening_of_datagrams_that_was_read_on_the_path_opens_nothing() {
    let scratch = Scratch::new();
    let (key, _) = made(&scratch, "key", "");
    let server = Server::start(keyed("--psk-file").arg(&key));
    let (listener, near) = both_kinds();
    let (at, _) = tapped(listener, server.port);
    let told = tapped_datagrams(near, server.port);
    // The session lives until the last opening was tried.
    let client =
        netcaliper("delay").arg(&at).args("-t 60s --pps 100 --json").arg("--psk-file").arg(&key).spawn();
    let read = |kind: u8| loop {
        let datagram = told.recv_timeout(Duration::from_secs(20)).unwrap();
        if datagram[KIND] == kind {
            return datagram;
        }
    };
    let (init, open) = (read(INIT), read(OPEN));
    let thief = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // The server answers datagrams in their order: no answer to one before INIT comes behind that
    // of INIT.
    let answers = |datagrams: &[&[u8]]| {
        let send = |datagram: &[u8]| thief.send_to(datagram, (Ipv4Addr::LOCALHOST, server.port)).unwrap();
        datagrams.iter().for_each(|datagram| assert_eq!(send(datagram), datagram.len()));
        thief.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (mut all, mut buffer) = (Vec::new(), [0; 2048]);
        while let Ok(n) = thief.recv(&mut buffer) {
            all.push((n, buffer[KIND]));
            // And nothing follows.
            thief.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        }
        all
    };
    // A replayed INIT is answered with a cookie that is valid for the thief's address only, in no
    // more bytes than it has; an OPEN with the cookie of another address is not answered.
    assert_eq!(answers(&[&open, &init]), [(CONTROL, COOKIE)]);
    // Changed in any byte; as many at once as a socket of the smallest default size holds.
    let bytes: Vec<usize> = (0..CONTROL).collect();
    for some in bytes.chunks(CONTROL / 4) {
        let changed = some.iter().flat_map(|at| {
            [&init, &open].map(|from| {
                let mut changed = from.clone();
                changed[*at] ^= 0x40;
                changed
            })
        });
        let changed: Vec<Vec<u8>> = changed.collect();
        let datagrams: Vec<&[u8]> = changed.iter().chain([&init]).map(Vec::as_slice).collect();
        assert_eq!(answers(&datagrams), [(CONTROL, COOKIE)], "bytes {some:?}");
    }
    client.signal("INT");
    let outcome = Outcome::of(client.wait()).exits(130).status("interrupted");
    assert_eq!(outcome.local()["opened"], 1);
    assert_eq!(outcome.remote_sum("/opened"), 1, "{}", outcome.tell());
}

/// `secret` as it might be written somewhere: the bytes, and in hexadecimal and base64 at each
/// offset.
fn forms(secret: &[u8; 32]) -> Vec<Vec<u8>> {
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let base64 = |skip: usize| -> String {
        let whole = |three: &[u8]| {
            let bits = three.iter().fold(0usize, |bits, &byte| bits << 8 | usize::from(byte));
            [18, 12, 6, 0].map(|shift| DIGITS[bits >> shift & 63])
        };
        secret[skip..].chunks_exact(3).flat_map(whole).map(char::from).collect()
    };
    let mut all = vec![secret.to_vec(), hex.to_uppercase().into_bytes(), hex.into_bytes()];
    for skip in 0..3 {
        let text = base64(skip);
        all.extend([text.replace('+', "-").replace('/', "_").into_bytes(), text.into_bytes()]);
    }
    all
}

/// All files below a folder, but those with keys.
fn files(folder: &Path, keys: &[PathBuf]) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { files(&path, keys) } else { vec![path] })
        .filter(|path| !keys.contains(path))
        .collect()
}

/// The names of a process's threads and of its program.
fn thread_names(process: u32) -> Vec<u8> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let tasks = fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
    let mut names: Vec<u8> =
        tasks.flat_map(|task| fs::read(task.path().join("comm")).unwrap_or_default()).collect();
    names.extend(fs::read_link(folder.join("exe")).unwrap_or_default().into_os_string().into_encoded_bytes());
    names
}

/// Both ends with a key, and with pairs, and every output that there is: no key is in any of it, in
/// no form.
#[test]
fn no_secret_is_in_anything_that_a_run_leaves() {
    let scratch = Scratch::new();
    let (key, _) = made(&scratch, "key", "--name lab");
    let (own, of_server) = made(&scratch, "own", "--pair");
    let (alice, of_alice) = made(&scratch, "alice", "--pair --name alice");
    let clients = scratch.with("clients", &of_alice);
    let keys = [key.clone(), own.clone(), alice.clone()];
    let digits = |path: &PathBuf| text(path).trim().rsplit(':').next().unwrap().to_owned();
    let secrets: Vec<[u8; 32]> = keys
        .iter()
        .map(|path| {
            let digits = digits(path);
            std::array::from_fn(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
        })
        .collect();
    let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
    let out = |name: &str| scratch.file(name).display().to_string();
    let outputs = |name: &str| {
        let some = format!("--status-csv {0}.csv --save {0}.jsonl --metrics-file {0}.prom", out(name));
        if name == "server" {
            some
        } else {
            format!("{some} --connection-csv {0}.c.csv --html {0}.html --svg {0}.svg --json", out(name))
        }
    };
    let store = scratch.file("store");
    let (environment, pair) = (text(&key), of_server.trim().to_owned());
    let start = keyed(&outputs("server")).env("NETCALIPER_STORE", &store).arg("-v");
    let server = Server::start(
        start.arg("--psk-file").arg(&key).arg("--key-file").arg(&own).arg("--client-keys").arg(&clients),
    );
    let client = |verb: &str, name: &str| {
        netcaliper(verb).arg(server.at()).args(&outputs(name)).env("NETCALIPER_STORE", &store)
    };
    let file = format!("-t 300ms -b 1M --psk-file {}", key.display());
    let with_pair = |own: &Path| format!("-t 300ms --server-key {pair} --key-file {}", own.display());
    let debug = client("tcp", "debug").args(&file);
    let lines = [
        ("file", client("tcp", "file").args(&file).args("-P 1"), 0),
        ("pair", client("delay", "pair").args(&with_pair(&alice)), 0),
        // Key in the environment; a client whose key the server lacks; backtraces on.
        ("variable", client("ping", "variable").args("-n 3").env("NETCALIPER_PSK", environment.trim()), 0),
        ("wrong", client("tcp", "wrong").args("-b 1M").args(&with_pair(&own)), 1),
        ("debug", debug.env("RUST_BACKTRACE", "full").env("RUST_LOG", "trace"), 0),
    ];
    let said = |name: &str, done: Done| {
        [
            (format!("{name}: stdout"), done.out.into_bytes()),
            (format!("{name}: stderr"), done.err.into_bytes()),
        ]
    };
    for (name, line, code) in lines {
        let proc = line.spawn();
        let command = fs::read(format!("/proc/{}/cmdline", proc.id())).unwrap_or_default();
        // Of these, host and time the name of a core file is made (core(5)).
        let thread_names = thread_names(proc.id());
        let done = proc.wait().exits(code);
        seen.extend([
            (format!("{name}: its command line"), command),
            (format!("{name}: its names"), thread_names),
        ]);
        seen.extend(said(name, done));
    }
    let command = fs::read(format!("/proc/{}/cmdline", server.proc.id())).unwrap();
    let names = thread_names(server.proc.id());
    assert!(names.len() > BIN.len(), "{names:?}");
    seen.extend([("the server's command line".to_owned(), command), ("its names".to_owned(), names)]);
    for line in
        [netcaliper("history").args("--json"), netcaliper("show").args("1 --json"), netcaliper("export")]
    {
        seen.extend(said("a reader of the store", line.env("NETCALIPER_STORE", &store).run()));
    }
    seen.extend(said("the server", server.end()));
    let left = files(scratch.path(), &keys);
    assert!(left.len() > 10, "{left:?}");
    seen.extend(left.iter().map(|path| (path.display().to_string(), fs::read(path).unwrap())));
    // A character for each byte: texts are searched much faster than bytes.
    let latin = |bytes: &[u8]| bytes.iter().map(|&byte| char::from(byte)).collect::<String>();
    let forms: Vec<String> = secrets.iter().flat_map(forms).map(|form| latin(&form)).collect();
    for (what, bytes) in &seen {
        let text = latin(bytes);
        assert!(!forms.iter().any(|form| text.contains(form)), "a key is in {what}");
    }
}
