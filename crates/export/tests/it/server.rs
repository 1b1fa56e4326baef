//! A receiver that follows a script, one step for each request, and then takes all.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Behaviour towards one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Script {
    /// An answer with this status and body.
    Status(u16, &'static str),
    /// Status 307 to another host.
    Redirect,
    /// The connection ends before the request is read.
    Close,
    /// The connection ends within the head of the answer.
    CloseMidway,
    /// No byte of an answer.
    Silent,
    /// The beginning of a head, and no more.
    HalfAHead,
    /// This status, and a body of 1 GiB.
    Endless(u16),
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    /// Bytes of endless bodies that the peer's kernel has taken.
    pub(crate) written: Arc<AtomicU64>,
}

impl Server {
    pub(crate) fn start(script: impl IntoIterator<Item = Script>) -> Server {
        Server::at(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    pub(crate) fn at(listener: TcpListener, script: impl IntoIterator<Item = Script>) -> Server {
        let address = listener.local_addr().unwrap();
        let mut script: VecDeque<Script> = script.into_iter().collect();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let written = Arc::new(AtomicU64::new(0));
        let (seen, count) = (Arc::clone(&requests), Arc::clone(&written));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let step = script.pop_front().unwrap_or(Script::Status(204, ""));
                let (seen, count) = (Arc::clone(&seen), Arc::clone(&count));
                thread::spawn(move || answer(stream.unwrap(), step, &seen, &count));
            }
        });
        Server { address, requests, written }
    }

    /// The requests so far, heads and bodies.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn answer(mut stream: TcpStream, step: Script, seen: &Mutex<Vec<String>>, count: &AtomicU64) {
    if matches!(step, Script::Close) {
        return;
    }
    let Some(request) = request(&mut stream) else { return };
    seen.lock().unwrap().push(request);
    let head = |status: u16, length: usize| {
        format!(
            "HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\nLocation: http://elsewhere.example/\r\n\r\n"
        )
    };
    // The peer may be gone.
    let _ = match step {
        Script::Status(status, body) => stream.write_all((head(status, body.len()) + body).as_bytes()),
        Script::Redirect => stream.write_all(head(307, 0).as_bytes()),
        Script::CloseMidway => stream.write_all(b"HTTP/1.1 200 O"),
        Script::HalfAHead => stream.write_all(b"HTTP/1.1 200 O").map(|()| until_closed(&mut stream)),
        Script::Silent | Script::Close => {
            until_closed(&mut stream);
            Ok(())
        }
        Script::Endless(status) => stream.write_all(head(status, 1 << 30).as_bytes()).and_then(|()| {
            for _ in 0..1 << 14 {
                stream.write_all(&[b'x'; 1 << 16])?;
                count.fetch_add(1 << 16, Ordering::Relaxed);
            }
            Ok(())
        }),
    };
    // A close with unread bytes would be a reset, which may overtake the answer.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    until_closed(&mut stream);
}

/// Reads until the peer has closed.
fn until_closed(stream: &mut TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
    let mut rest = [0; 1024];
    while stream.read(&mut rest).is_ok_and(|n| n > 0) {}
}

/// A request with its body, whose length its head has.
fn request(stream: &mut TcpStream) -> Option<String> {
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let so_far = String::from_utf8_lossy(&text).into_owned();
        if let Some((head, body)) = so_far.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(so_far);
            }
        }
        let n = stream.read(&mut buffer).ok().filter(|n| *n > 0)?;
        text.extend_from_slice(&buffer[..n]);
    }
}
