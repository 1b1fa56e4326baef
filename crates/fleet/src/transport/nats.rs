//! A NATS server in the middle: controllers and agents both dial out to it, so that neither has to
//! be reachable.
//!
//! | subject | from | to |
//! |---|---|---|
//! | `netcaliper.FLEET.order.HOST` | controllers | the agent of HOST |
//! | `netcaliper.FLEET.report.HOST` | the agent of HOST | all controllers |
//!
//! Both are messages without a store: the ends repeat lost ones, and results wait in the agents'
//! spools. Measured data never pass the server.

use super::{Arrival, Transport, arrived};
use crate::agent::{Agent, Input, drive};
use crate::inventory::HostId;
use crate::message::{self, MAX_ORDER, MAX_REPORT, Of, Order};
use crate::result::Reason;
use crate::spool::MAX_KEPT;
use crate::threads::{lock, no_thread};
use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, Message};
use futures_util::StreamExt as _;
use metrics::Mono;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::mpsc as queue;
use tokio::time::Instant;
use uuid::Uuid;

/// Oldest server, major and minor version: older ones lack what leases need, or have known holes.
const OLDEST: (u32, u32) = (2, 11);
/// Limit for a connection's establishment.
const CONNECT: Duration = Duration::from_secs(10);
/// Most orders that wait for the server.
const MAX_WAITING: usize = 65_536;
/// Most reports of a host that the controller has not read: more than all results that an agent
/// keeps, which it sends at once.
const MAX_UNREAD: usize = 2 * MAX_KEPT;
/// Most bytes of these reports: an agent sends further ones after the next greeting.
const MAX_UNREAD_BYTES: usize = 64 << 20;
/// Time in which a host's messages are ignored after one that is not a report, or that exceeds the
/// limit.
const IGNORED: Duration = Duration::from_secs(3);
/// Time between two looks for hosts that have not said anything.
const KNOCK: Duration = Duration::from_secs(1);
/// Silence of a host after which the controller looks for it.
const SILENCE: Duration = Duration::from_secs(3);
/// Limit for the last messages to leave.
const FAREWELL: Duration = Duration::from_secs(2);
/// Limit for a host's first message, after which the host counts as absent.
const FIRST: Duration = Duration::from_secs(30);

/// Prints a sentence for the user.
pub type Tell = fn(&str);

/// Address and credentials of the server, and the name of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// For example `tls://nats.example:4222`; several with commas between.
    pub url: String,
    /// Name of the fleet: a part of all subjects.
    pub fleet: String,
    /// Certificates of the authorities that the server's is checked against; the system's where
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// File of credentials (a JWT and its key).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creds: Option<PathBuf>,
    /// File with the seed of an NKey.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nkey: Option<PathBuf>,
    /// Certificate of this end, and its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl Login {
    fn subject(&self, kind: &str, host: &str) -> String {
        format!("netcaliper.{}.{kind}.{host}", token(&self.fleet))
    }

    /// Connects, and goes on trying with `retries`. `tell` gets the refusals of the server, also
    /// later ones.
    pub(crate) async fn connect(&self, name: &str, retries: bool, tell: Tell) -> Result<Client, String> {
        let failed = |what: &str, e: &dyn Display| format!("NATS server {}: {what}: {e}", self.shown());
        let of_file = |file: &Path, e: &dyn Display| failed(&file.display().to_string(), e);
        let mut options =
            ConnectOptions::new().name(name).connection_timeout(CONNECT).subscription_capacity(MAX_WAITING);
        let pair = self.certificate.iter().flat_map(|(certificate, key)| [certificate, key]);
        for file in self.ca.iter().chain(pair) {
            // An unreadable file would be an error of TLS without a reason.
            std::fs::read(file).map_err(|e| of_file(file, &e))?;
        }
        if let Some(ca) = &self.ca {
            options = options.add_root_certificates(ca.clone());
        }
        if let Some((certificate, key)) = &self.certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        if let Some(file) = &self.nkey {
            let seed = std::fs::read_to_string(file).map_err(|e| of_file(file, &e))?;
            options = options.nkey(seed.trim().to_owned());
        }
        if let Some(creds) = &self.creds {
            let with = options.credentials_file(creds).await;
            options = with.map_err(|e| of_file(creds, &e))?;
        }
        let (shown, last) = (self.shown(), Mutex::new(String::new()));
        options = options.event_callback(move |event| {
            if let Some(trouble) = trouble(&event, &last) {
                tell(&format!("NATS server {shown} {trouble}"));
            }
            std::future::ready(())
        });
        if retries {
            options = options.retry_on_initial_connect();
        }
        let urls: Vec<&str> = self.url.split(',').map(str::trim).collect();
        let client = options.connect(urls).await.map_err(|e| failed("cannot connect", &e))?;
        let version = client.server_info().version;
        if !version.is_empty() && !is_new_enough(&version) {
            let (major, minor) = OLDEST;
            let why = format!("its version is {version}, {major}.{minor} is the oldest that will do");
            return Err(failed("too old", &why));
        }
        Ok(client)
    }

    /// The address, without what may be a password.
    fn shown(&self) -> String {
        let hosts = self.url.split(',').map(|url| url.rsplit_once('@').map_or(url, |(_, host)| host));
        hosts.collect::<Vec<_>>().join(",")
    }
}

fn failed(e: impl Display) -> String {
    format!("NATS server: {e}")
}

/// Waits until published messages have left, at most [`FAREWELL`]: without a connection none
/// leaves.
async fn flush(client: &Client) {
    let _ = tokio::time::timeout(FAREWELL, client.flush()).await;
}

/// Notice about an event; a repetition of the last notice is left out until there was a connection.
fn trouble(event: &Event, last: &Mutex<String>) -> Option<String> {
    let text = match event {
        Event::Connected => String::new(),
        Event::ServerError(error) => format!("refuses: {error}"),
        Event::ClientError(error) => format!("is not reached yet: {error}"),
        _ => return None,
    };
    // The same is refused for each subject, which stand in quotes.
    let kind = text.split('"').next().unwrap_or_default();
    let mut last = lock(last);
    let is_new = *last != kind;
    kind.clone_into(&mut last);
    (is_new && !text.is_empty()).then_some(text)
}

/// True if a server's version, such as `2.15.1` or `2.11.0-beta.1`, is not too old.
fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= OLDEST
}

/// A name as one part of a subject: other characters than letters, digits, `-` and `_` as `=` and
/// two digits.
pub(crate) fn token(name: &str) -> String {
    let mut token = String::new();
    for byte in name.bytes() {
        match byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            true => token.push(char::from(byte)),
            false => token += &format!("={byte:02X}"),
        }
    }
    token
}

/// A runtime for one thread.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start a runtime: {e}"))
}

/// An arrival from a host, and its bytes if it counts among the unread reports.
type Counted = (HostId, Arrival, Option<usize>);

/// Number and bytes of the reports of each host that the controller has not read. NATS does not
/// slow an agent down. Reports beyond the limit are dropped; the agent keeps its results until they
/// are stored, and other hosts are not affected.
#[derive(Default)]
struct Unread(Mutex<BTreeMap<HostId, (usize, usize)>>);

impl Unread {
    /// Counts a report, where there is room for it.
    fn add(&self, host: HostId, length: usize) -> bool {
        let mut unread = lock(&self.0);
        let (count, bytes) = unread.entry(host).or_default();
        let has_room = *count < MAX_UNREAD && *bytes + length <= MAX_UNREAD_BYTES;
        if has_room {
            *count += 1;
            *bytes += length;
        }
        has_room
    }

    /// Takes a report that the controller reads off the unread ones.
    fn read(&self, (host, arrival, length): Counted) -> (HostId, Arrival) {
        if let (Some(length), Some((count, bytes))) = (length, lock(&self.0).get_mut(&host)) {
            *count = count.saturating_sub(1);
            *bytes = bytes.saturating_sub(length);
        }
        (host, arrival)
    }
}

/// Agents behind a NATS server.
pub struct Nats {
    orders: Option<queue::Sender<(HostId, String)>>,
    arrivals: Receiver<Counted>,
    unread: Arc<Unread>,
    thread: Option<JoinHandle<()>>,
}

impl Nats {
    /// Connects to the server, and begins to look for these hosts by their names.
    ///
    /// # Errors
    /// One sentence, when the server cannot be had.
    pub fn start(server: Login, run: Uuid, hosts: Vec<(HostId, String)>, tell: Tell) -> Result<Nats, String> {
        let (orders, waiting) = queue::channel(MAX_WAITING);
        let (arrived, arrivals) = channel();
        let runtime = runtime()?;
        let client = runtime.block_on(server.connect("netcaliper controller", false, tell))?;
        let subscribing = client.subscribe(server.subject("report", "*"));
        let reports = runtime.block_on(subscribing).map_err(failed)?;
        runtime.block_on(client.flush()).map_err(failed)?;
        let unread = Arc::<Unread>::default();
        let inbox = Inbox {
            arrived,
            unread: Arc::clone(&unread),
            names: hosts.iter().map(|(id, name)| (token(name), *id)).collect(),
            ignored: BTreeMap::new(),
        };
        let subject = |name: String| (server.subject("order", &token(&name)), None);
        let hosts = hosts.into_iter().map(|(id, name)| (id, subject(name))).collect();
        let carrier = Carrier { run, client, inbox, hosts, began: Instant::now(), gave_up: false };
        let carry = move || runtime.block_on(carrier.carry(waiting, reports));
        let thread = thread::Builder::new().name("nats".to_owned()).spawn(carry);
        let thread = thread.map_err(no_thread)?;
        Ok(Nats { orders: Some(orders), arrivals, unread, thread: Some(thread) })
    }
}

impl Transport for Nats {
    fn send(&mut self, host: HostId, order: &Of<Order>) {
        if let (Some(orders), Ok(line)) = (&self.orders, order.line()) {
            // A full queue means that the server is gone; lost orders are repeated.
            let _ = orders.try_send((host, line));
        }
    }

    fn receive(&mut self, wait: Duration) -> Vec<(HostId, Arrival)> {
        arrived(&self.arrivals, wait).into_iter().map(|counted| self.unread.read(counted)).collect()
    }

    fn close(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.close();
    }
}

/// Receives the reports of all hosts.
struct Inbox {
    arrived: Sender<Counted>,
    unread: Arc<Unread>,
    /// Hosts by the last part of their subjects.
    names: BTreeMap<String, HostId>,
    /// Hosts whose messages are ignored until then.
    ignored: BTreeMap<HostId, Instant>,
}

impl Inbox {
    /// Passes a message on. Its host, unless that is none of the run or is ignored.
    fn take(&mut self, now: Instant, name: &str, payload: &[u8]) -> Option<HostId> {
        let host = *self.names.get(name)?;
        if self.ignored.get(&host).is_some_and(|until| now < *until) {
            return None;
        }
        let report = match payload.len() {
            n if n > MAX_REPORT => Err(format!("{n} bytes are more than a report has")),
            _ => message::parse(payload),
        };
        let report = match report {
            Ok(report) if self.unread.add(host, payload.len()) => Ok(report),
            Ok(_) => Err("its agent sends more reports than the controller reads".to_owned()),
            Err(why) => Err(format!("its agent sent an invalid report: {why}")),
        };
        let counted = match report {
            Ok(report) => (host, Arrival::Report(Box::new(report)), Some(payload.len())),
            Err(why) => {
                // The controller greets the agent again after that, which then sends the results
                // that it keeps.
                self.ignored.insert(host, now + IGNORED);
                (host, Arrival::Lost { reason: Reason::BadResult, why, retries: true }, None)
            }
        };
        let _ = self.arrived.send(counted);
        Some(host)
    }
}

/// State of the connection's thread.
struct Carrier {
    run: Uuid,
    client: Client,
    inbox: Inbox,
    /// Subject of a host's orders, and when it was heard.
    hosts: BTreeMap<HostId, (String, Option<Instant>)>,
    began: Instant,
    /// The hosts that never answered have been given up.
    gave_up: bool,
}

impl Carrier {
    /// Passes messages on until the controller closes.
    async fn carry(
        mut self,
        mut orders: queue::Receiver<(HostId, String)>,
        mut reports: async_nats::Subscriber,
    ) {
        let mut knock = tokio::time::interval(KNOCK);
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some((host, line)) => self.publish(host, line).await,
                    None => break,
                },
                report = reports.next() => match report {
                    Some(report) => self.on_message(&report),
                    None => break,
                },
                _ = knock.tick() => self.knock().await,
            }
        }
        flush(&self.client).await;
    }

    async fn publish(&self, host: HostId, line: String) {
        // Without a server the client takes some messages, and waits with the next one until there
        // is a server again.
        if self.client.connection_state() != State::Connected {
            return;
        }
        if let Some((subject, _)) = self.hosts.get(&host) {
            let _ = self.client.publish(subject.clone(), line.into()).await;
        }
    }

    fn on_message(&mut self, message: &Message) {
        let (now, name) = (Instant::now(), message.subject.rsplit('.').next().unwrap_or_default());
        let Some(host) = self.inbox.take(now, name, &message.payload) else { return };
        if let Some((_, heard)) = self.hosts.get_mut(&host) {
            *heard = Some(now);
        }
    }

    /// Asks for the hosts that say nothing: an agent that does not know the run introduces itself.
    async fn knock(&mut self) {
        let order = Of::new(self.run, Order::Alive { now: Mono(0) });
        let Ok(line) = order.line() else { return };
        let silent = |heard: &Option<Instant>| heard.is_none_or(|heard| heard.elapsed() >= SILENCE);
        for (host, _) in self.hosts.iter().filter(|(_, (_, heard))| silent(heard)) {
            self.publish(*host, line.clone()).await;
        }
        if self.began.elapsed() >= FIRST && !std::mem::replace(&mut self.gave_up, true) {
            for (host, _) in self.hosts.iter().filter(|(_, (_, heard))| heard.is_none()) {
                let why = "no agent of this name answers".to_owned();
                let lost = Arrival::Lost { reason: Reason::HostAbsent, why, retries: false };
                let _ = self.inbox.arrived.send((*host, lost, None));
            }
        }
    }
}

/// Runs an agent behind a NATS server until it is asked to end ([`Input::Gone`]) and its last test
/// is over.
///
/// # Errors
/// One sentence, when the server refuses the agent.
pub fn serve(
    agent: &mut Agent,
    inputs: &(Sender<Input>, Receiver<Input>),
    server: Login,
    name: &str,
    tell: Tell,
) -> Result<(), String> {
    let (reports, waiting) = queue::channel::<String>(MAX_WAITING);
    let (orders, name) = (inputs.0.clone(), token(name));
    let runtime = runtime()?;
    let client = runtime.block_on(server.connect(&format!("netcaliper agent {name}"), true, tell))?;
    let subjects = (server.subject("order", &name), server.subject("report", &name));
    let carrying = thread::Builder::new().name("nats".to_owned()).stack_size(512 << 10).spawn(move || {
        let over = runtime.block_on(carry(&client, subjects, waiting, &orders));
        // The loop may be over.
        let _ = orders.send(Input::Gone(over.err()));
    });
    let carrying = carrying.map_err(no_thread)?;
    let over = drive(agent, &inputs.1, &mut |_, line| reports.try_send(line).is_ok(), false);
    drop(reports);
    let _ = carrying.join();
    over
}

/// Passes messages on until the agent ends.
async fn carry(
    client: &Client,
    (own, report): (String, String),
    mut reports: queue::Receiver<String>,
    inputs: &Sender<Input>,
) -> Result<(), String> {
    let mut orders = client.subscribe(own).await.map_err(failed)?;
    loop {
        tokio::select! {
            line = reports.recv() => match line {
                Some(line) => client.publish(report.clone(), line.into()).await.map_err(failed)?,
                None => break,
            },
            order = orders.next() => match order {
                // A message that is no order is not from a controller: the server guards the
                // subjects.
                Some(order) if order.payload.len() > MAX_ORDER => {}
                Some(order) => {
                    if let Ok(order) = message::parse(&order.payload)
                        && inputs.send(Input::Order(Arc::default(), Box::new(order))).is_err()
                    {
                        break;
                    }
                }
                None => return Err("the NATS server has ended the subscription".to_owned()),
            },
        }
    }
    flush(client).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Report;

    #[test]
    fn an_agent_that_sends_too_many_reports_loses_its_own_alone() {
        let (arrived, arrivals) = channel();
        let unread = Arc::<Unread>::default();
        let names = BTreeMap::from([("a".to_owned(), HostId(0)), ("b".to_owned(), HostId(1))]);
        let mut inbox = Inbox { arrived, unread: Arc::clone(&unread), names, ignored: BTreeMap::new() };
        let (now, alive) = (Instant::now(), Of::new(Uuid::nil(), Report::Alive).line().unwrap());
        let mut take = |now, name, payload: &str| inbox.take(now, name, payload.as_bytes());
        for _ in 0..MAX_UNREAD + 10 {
            take(now, "a", &alive);
        }
        assert_eq!(take(now, "b", &alive), Some(HostId(1)));
        assert_eq!(take(now, "c", &alive), None, "no host of the run");
        let read = || arrivals.try_iter().map(|counted| unread.read(counted)).collect::<Vec<_>>();
        let all = read();
        let of = |host: u32, is_report: bool| {
            let is_such = |arrival: &Arrival| matches!(arrival, Arrival::Report(_)) == is_report;
            all.iter().filter(|(of, arrival)| of.0 == host && is_such(arrival)).count()
        };
        assert_eq!((of(0, true), of(0, false)), (MAX_UNREAD, 1), "the loss is said once");
        assert_eq!((of(1, true), of(1, false)), (1, 0));
        assert_eq!((take(now, "a", &alive), read().len()), (None, 0), "ignored");
        assert_eq!((take(now + IGNORED, "a", &alive), read().len()), (Some(HostId(0)), 1));
        // What is no report is not said for each message either.
        let (garbage, long) = ("garbage", " ".repeat(MAX_REPORT + 1));
        assert_eq!((take(now, "b", garbage), take(now, "b", garbage)), (Some(HostId(1)), None));
        assert_eq!(take(now + IGNORED, "b", &long), Some(HostId(1)));
        let lost = read();
        assert!(lost.len() == 2 && lost.iter().all(|(_, arrival)| matches!(arrival, Arrival::Lost { .. })));
    }

    #[test]
    fn the_bytes_of_unread_reports_are_bounded_for_each_host() {
        let unread = Unread::default();
        let fit = (0..MAX_UNREAD).take_while(|_| unread.add(HostId(0), MAX_REPORT)).count();
        assert_eq!(fit, MAX_UNREAD_BYTES / MAX_REPORT);
        assert!(unread.add(HostId(1), MAX_REPORT), "another host has its own room");
        let lost = || Arrival::Lost { reason: Reason::BadResult, why: String::new(), retries: true };
        unread.read((HostId(0), lost(), None));
        assert!(!unread.add(HostId(0), MAX_REPORT), "what was not counted makes no room");
        unread.read((HostId(0), lost(), Some(MAX_REPORT)));
        assert!(unread.add(HostId(0), MAX_REPORT));
    }

    #[test]
    fn names_are_parts_of_subjects() {
        assert_eq!(token("rack-7_a"), "rack-7_a");
        assert_eq!(token("a.b*>"), "a=2Eb=2A=3E");
        assert_ne!(token("a.b"), token("a=2Eb"));
    }

    #[test]
    fn old_servers_are_refused() {
        for (version, good) in
            [("2.15.1", true), ("2.11.0-beta.1", true), ("2.9.10", false), ("3.0.0", true), ("x", false)]
        {
            assert_eq!(is_new_enough(version), good, "{version}");
        }
    }

    #[test]
    fn what_a_server_refuses_is_told_once() {
        let refused = |subject| {
            let text = format!("Permissions Violation for Publish to \"{subject}\"");
            Event::ServerError(async_nats::ServerError::Other(text))
        };
        let last = Mutex::default();
        let told = trouble(&refused("a"), &last).unwrap();
        assert!(told.starts_with("refuses: ") && told.contains("Publish to \"a\""), "{told}");
        assert_eq!(trouble(&refused("b"), &last), None);
        assert_eq!(trouble(&Event::Connected, &last), None);
        assert!(trouble(&refused("a"), &last).is_some());
    }

    #[test]
    fn passwords_are_not_shown() {
        let server = Login { url: "nats://me:secret@a:4222,tls://b".to_owned(), ..Login::default() };
        assert_eq!(server.shown(), "a:4222,tls://b");
    }
}
