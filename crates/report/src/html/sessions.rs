//! Sessions of a server: running ones, ended ones, and links of the other protocols.

use super::first::Tile;
use super::{escape, utc};
use crate::csv::spelled;
use crate::text::{Column, Page, Table, Tone, or_dash};
use crate::words;
use metrics::{Clamped, Wall, format_bits_per_second, format_bytes, format_duration};
use model::{ConnectionRecord, Event, Interval, LinkRow, Links, Served, Standing, Traffic};
use serde_json::json;
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Rows of a table; of more the first are shown, and how many there are.
const MOST_ROWS: usize = 200;
const MOST_ENDED: usize = 100;
/// Clients of protocols that know no sessions, by address.
const MOST_CLIENTS: usize = 200;

/// A session of any protocol.
#[derive(Clone, Debug)]
struct SessionRow {
    protocol: &'static str,
    /// Its number within its protocol; `None` where the protocol has none, or it has not begun.
    session: Option<u64>,
    client: String,
    what: String,
    standing: String,
    since: Wall,
    load: Load,
    /// True if more may be open that were not listed.
    at_least: bool,
    /// Names the run on both ends, where the protocol has such a name.
    run: String,
}

/// Traffic of the latest interval and of all, and data connections: of a session, or of a protocol.
#[derive(Clone, Debug, Default)]
struct Load {
    latest: Traffic,
    total: Traffic,
    open: u64,
    opened: u64,
    errors: u64,
}

impl Load {
    /// Takes in the next interval.
    fn add(&mut self, interval: &Interval) {
        self.latest = interval.local;
        self.total.add_later(&interval.local);
        self.open = interval.in_flight;
        self.opened += interval.opened;
        self.errors = interval.errors();
    }
}

/// A client of a protocol that goes along: sums over its ended connections.
#[derive(Clone, Copy, Debug, Default)]
struct Client {
    connections: u64,
    failed: u64,
    tx_bytes: u64,
    rx_bytes: u64,
}

/// A server's table of its clients. The table stays small however many there have been.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    now: BTreeMap<(&'static str, SocketAddr), SessionRow>,
    ended: VecDeque<SessionRow>,
    over: u64,
    /// Clients of protocols that know none.
    serving: Serving,
    services: BTreeMap<&'static str, Load>,
    clients: BTreeMap<(&'static str, IpAddr), Client>,
}

const OWN: &str = "native";

impl Sessions {
    /// Takes in an event of the server's own protocol.
    pub(super) fn absorb(&mut self, event: &Event) {
        if let Event::Served(served) = event {
            self.served(OWN, served);
        }
    }

    /// Takes in an event of a protocol that goes along.
    pub(super) fn absorb_side(&mut self, protocol: &'static str, event: &Event) {
        match event {
            Event::Interval(interval) => self.services.entry(protocol).or_default().add(interval),
            Event::Connection(record) => self.connection(protocol, record),
            Event::Links(links) => self.serving.update(protocol, links),
            Event::PhaseEnd { .. } => self.serving.remove(protocol),
            Event::Served(served) => self.served(protocol, served),
            _ => {}
        }
    }

    fn served(&mut self, protocol: &'static str, served: &Served) {
        let (key, row) = ((protocol, served.peer), session(protocol, served));
        if !served.standing.is_over() {
            self.now.insert(key, row);
            return;
        }
        self.now.remove(&key);
        self.over += 1;
        self.ended.push_front(row);
        self.ended.truncate(MOST_ENDED);
    }

    fn connection(&mut self, protocol: &'static str, record: &ConnectionRecord) {
        let key = (protocol, record.remote.ip().to_canonical());
        if self.clients.len() >= MOST_CLIENTS && !self.clients.contains_key(&key) {
            return;
        }
        let client = self.clients.entry(key).or_default();
        client.connections += 1;
        client.failed += u64::from(record.error.is_some());
        client.tx_bytes += record.tx_bytes;
        client.rx_bytes += record.rx_bytes;
    }

    /// The server's present load, all protocols together; `own` is the latest interval of its own
    /// protocol.
    pub(super) fn tiles(&self, own: Option<&Interval>) -> Vec<Tile> {
        let mut own_load = Load::default();
        own.into_iter().for_each(|interval| own_load.add(interval));
        let (mut from, mut to, mut open, mut errors) = (0.0, 0.0, 0, 0);
        for load in self.services.values().chain([&own_load]) {
            (from, to) = (from + load.latest.rx_bps(), to + load.latest.tx_bps());
            (open, errors) = (open + load.open, errors + load.errors);
        }
        let running = u64::clamped(self.now.len());
        [
            ("sessions", running.to_string(), format!("{} over", self.over)),
            ("from clients", format_bits_per_second(from), "now".to_owned()),
            ("to clients", format_bits_per_second(to), "now".to_owned()),
            ("connections", open.to_string(), "open".to_owned()),
            ("errors", errors.to_string(), String::new()),
        ]
        .map(|(name, value, more)| (name.to_owned(), value, more))
        .into()
    }

    pub(super) fn write(&self, page: &mut Page<'_>) {
        writeln!(page, "<section id=\"sessions\"><h2>Sessions</h2>");
        let unnamed = self.serving.rows();
        let all = self.now.len() + unnamed.len();
        if all == 0 {
            writeln!(page, "<p>No client is connected.</p>");
        }
        let rows = self.now.values().chain(&unnamed).take(MOST_ROWS);
        table("In progress", &SESSION, rows.map(|row| (row.load.errors > 0, row)), page);
        if all > MOST_ROWS {
            writeln!(page, "<p class=\"soft\">and {} more</p>", all - MOST_ROWS);
        }
        for (protocol, n) in self.serving.more() {
            let more = words::count(n, "more connection");
            writeln!(page, "<p class=\"soft\">and {more} of {protocol} that no row counts</p>");
        }
        let title = match usize::clamped(self.over) {
            n if n > self.ended.len() => format!("The latest {} of {n} that are over", self.ended.len()),
            _ => "Over".to_owned(),
        };
        table(&title, &ENDED, self.ended.iter().map(|row| (row.load.errors > 0, row)), page);
        let services = self.services.iter().map(|(name, load)| (load.errors > 0, (*name, load.clone())));
        table("Protocols that go along", &SERVICE, services, page);
        let clients = self.clients.iter();
        let clients = clients.map(|((protocol, address), all)| (all.failed > 0, (*protocol, *address, *all)));
        table("Their clients, by connections that have ended", &CLIENT, clients, page);
        writeln!(page, "</section>");
    }
}

const SESSION: [Column<SessionRow>; 12] = [
    ("session", name),
    ("client", |row| row.client.clone()),
    ("from it now", |row| format_bits_per_second(row.load.latest.rx_bps())),
    ("to it now", |row| format_bits_per_second(row.load.latest.tx_bps())),
    ("stands", standing),
    ("what", |row| row.what.clone()),
    ("connections", |row| match row.at_least {
        true => format!("at least {}", row.load.open),
        false => format!("{} of {}", row.load.open, row.load.opened),
    }),
    ("errors", |row| row.load.errors.to_string()),
    ("received", |row| format_bytes(row.load.total.rx_bytes)),
    ("sent", |row| format_bytes(row.load.total.tx_bytes)),
    ("since (UTC)", since),
    ("run", run),
];
const ENDED: [Column<SessionRow>; 10] = [
    ("session", name),
    ("client", |row| row.client.clone()),
    ("ended", standing),
    ("what", |row| row.what.clone()),
    ("connections", |row| row.load.opened.to_string()),
    ("errors", |row| row.load.errors.to_string()),
    ("received", |row| format_bytes(row.load.total.rx_bytes)),
    ("sent", |row| format_bytes(row.load.total.tx_bytes)),
    ("started (UTC)", since),
    ("run", run),
];
/// Columns of text.
const WORDS: [&str; 5] = ["client", "stands", "ended", "what", "run"];
const SERVICE: [Column<(&str, Load)>; 7] = [
    ("protocol", |(name, _)| (*name).to_owned()),
    ("from clients now", |(_, service)| format_bits_per_second(service.latest.rx_bps())),
    ("to clients now", |(_, service)| format_bits_per_second(service.latest.tx_bps())),
    ("received", |(_, service)| format_bytes(service.total.rx_bytes)),
    ("sent", |(_, service)| format_bytes(service.total.tx_bytes)),
    ("connections", |(_, service)| format!("{} of {}", service.open, service.opened)),
    ("errors", |(_, service)| service.errors.to_string()),
];
const CLIENT: [Column<(&str, IpAddr, Client)>; 6] = [
    ("protocol", |(name, ..)| (*name).to_owned()),
    ("client", |(_, address, _)| address.to_string()),
    ("connections", |(.., client)| client.connections.to_string()),
    ("failed", |(.., client)| client.failed.to_string()),
    ("received", |(.., client)| format_bytes(client.rx_bytes)),
    ("sent", |(.., client)| format_bytes(client.tx_bytes)),
];

fn session(protocol: &'static str, served: &Served) -> SessionRow {
    SessionRow {
        protocol,
        session: Some(served.number).filter(|number| *number > 0),
        client: served.peer.to_string(),
        what: served.phase.as_deref().map(words::phase).unwrap_or_default(),
        standing: spelled(json!(served.standing)),
        since: served.since,
        load: Load {
            latest: served.latest,
            total: served.total,
            open: served.open,
            opened: served.opened,
            errors: served.errors + u64::from(served.standing == Standing::Lost),
        },
        at_least: false,
        run: Some(served.run).filter(|run| !run.is_nil()).map(|run| run.to_string()).unwrap_or_default(),
    }
}

fn name(row: &SessionRow) -> String {
    match (row.protocol, row.session) {
        (OWN, number) => or_dash(number, |n| n.to_string()),
        (protocol, None) => protocol.to_owned(),
        (protocol, Some(n)) => format!("{protocol} {n}"),
    }
}

fn standing(row: &SessionRow) -> String {
    match row.load.total.ns {
        0 => row.standing.clone(),
        ns => format!("{}, {}", row.standing, format_duration(ns)),
    }
}

fn since(row: &SessionRow) -> String {
    utc(row.since).trim_end_matches(" UTC").to_owned()
}

fn run(row: &SessionRow) -> String {
    row.run.get(..8).unwrap_or_default().to_owned()
}

/// A table of rows, if there are any, bad ones in another colour.
fn table<T>(
    title: &str,
    columns: &[Column<T>],
    rows: impl Iterator<Item = (bool, impl Borrow<T>)>,
    page: &mut Page<'_>,
) {
    let Some(((name, first), others)) = columns.split_first() else { return };
    let table = Table::of(name, others, rows.map(|(bad, row)| (Tone::bad_if(bad), first(row.borrow()), row)));
    if table.is_empty() {
        return;
    }
    let class = |name: &str| match name {
        "what" => "text what",
        name if WORDS.contains(&name) => "text",
        _ => "",
    };
    writeln!(page, "<h3>{}</h3>", escape(title));
    table.markup(["numbers", ""], class, page);
}

/// A worker's last list, and the new traffic of its rows.
#[derive(Clone, Debug)]
struct List {
    at: Wall,
    rows: Vec<(LinkRow, Traffic)>,
    /// Open connections that are not among them.
    more: u64,
}

/// The latest lists of all workers, by protocol.
#[derive(Clone, Debug, Default)]
struct Serving(BTreeMap<(&'static str, u32), List>);

impl Serving {
    /// Takes in a worker's list.
    fn update(&mut self, protocol: &'static str, links: &Links) {
        let key = (protocol, links.worker);
        let before = self.0.get(&key).map_or(&[][..], |list| &list.rows[..]);
        let known: BTreeMap<_, _> = before.iter().map(|(row, _)| ((row.remote, row.local), row)).collect();
        let latest = |row: &LinkRow| {
            let old = known
                .get(&(row.remote, row.local))
                .filter(|old| old.tx_bytes <= row.tx_bytes && old.rx_bytes <= row.rx_bytes);
            let Some(old) = old else { return newly(row, links) };
            Traffic {
                tx_bytes: row.tx_bytes - old.tx_bytes,
                rx_bytes: row.rx_bytes - old.rx_bytes,
                ns: links.ns,
                ..Traffic::default()
            }
        };
        let rows = links.rows.iter().map(|row| (*row, latest(row))).collect();
        self.0.insert(key, List { at: links.at, rows, more: links.more });
    }

    /// A protocol's server has ended.
    fn remove(&mut self, protocol: &'static str) {
        self.0.retain(|(of, _), _| *of != protocol);
    }

    /// Open connections that are in no row, by protocol.
    fn more(&self) -> BTreeMap<&'static str, u64> {
        let mut more = BTreeMap::new();
        for ((protocol, _), list) in self.0.iter().filter(|(_, list)| list.more > 0) {
            *more.entry(*protocol).or_default() += list.more;
        }
        more
    }

    /// A row for each client's address and protocol.
    fn rows(&self) -> Vec<SessionRow> {
        let mut clients: BTreeMap<(&'static str, IpAddr), Sum> = BTreeMap::new();
        for ((protocol, _), list) in &self.0 {
            for (row, latest) in &list.rows {
                let client = row.remote.ip().to_canonical();
                clients.entry((*protocol, client)).or_default().add(row, latest, list.at);
            }
        }
        let more = self.more();
        let all = clients.into_iter();
        all.map(|((protocol, address), sum)| sum.row(protocol, address, more.contains_key(protocol)))
            .collect()
    }
}

/// New traffic of a link that the last list did not have: all that it has moved, or, where it began
/// before that list and had no place in it, the mean of an interval.
fn newly(row: &LinkRow, links: &Links) -> Traffic {
    let age = u64::try_from(links.at.0.saturating_sub(row.since.0)).unwrap_or(0).max(links.ns).max(1);
    let of = |bytes: u64| u64::clamped(u128::from(bytes) * u128::from(links.ns) / u128::from(age));
    Traffic { tx_bytes: of(row.tx_bytes), rx_bytes: of(row.rx_bytes), ns: links.ns, ..Traffic::default() }
}

/// All that stands open with one address.
#[derive(Default)]
struct Sum {
    /// The only one's port, and ours.
    port: u16,
    ports: BTreeSet<u16>,
    since: Option<Wall>,
    load: Load,
}

impl Sum {
    fn add(&mut self, row: &LinkRow, latest: &Traffic, at: Wall) {
        self.load.open += 1;
        self.load.opened += 1;
        self.port = row.remote.port();
        self.ports.insert(row.local.port());
        self.since = Some(self.since.map_or(row.since, |since| since.min(row.since)));
        self.load.latest.add_host(latest);
        let ns = u64::try_from(at.0.saturating_sub(row.since.0)).unwrap_or(0);
        self.load.total.add_host(&Traffic {
            tx_bytes: row.tx_bytes,
            rx_bytes: row.rx_bytes,
            ns,
            ..Traffic::default()
        });
    }

    fn row(self, protocol: &'static str, address: IpAddr, at_least: bool) -> SessionRow {
        let client = match self.load.open {
            1 => SocketAddr::new(address, self.port).to_string(),
            _ => address.to_string(),
        };
        let ports: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
        let what = match &ports[..] {
            [first, .., last] if ports.len() > 2 => format!("at ports {first} to {last}"),
            [one] => format!("at port {one}"),
            _ => format!("at ports {}", ports.join(" and ")),
        };
        SessionRow {
            protocol,
            session: None,
            client,
            what,
            standing: "served".to_owned(),
            since: self.since.unwrap_or_default(),
            load: self.load,
            at_least,
            run: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::live::written;
    use metrics::SECOND;
    use uuid::Uuid;

    fn served(port: u16, number: u64, standing: Standing) -> Event {
        Event::Served(Box::new(Served {
            number,
            peer: SocketAddr::from(([192, 0, 2, 1], port)),
            run: Uuid::nil(),
            phase: Some(Box::default()),
            standing,
            since: Wall(1_700_000_000_000_000_000),
            latest: Traffic { tx_bytes: 0, rx_bytes: 125_000, ns: SECOND, ..Traffic::default() },
            total: Traffic { tx_bytes: 0, rx_bytes: 250_000, ns: 2 * SECOND, ..Traffic::default() },
            open: 8,
            opened: 9,
            errors: 0,
        }))
    }

    #[test]
    fn sessions_are_in_progress_until_they_are_over() {
        let mut sessions = Sessions::default();
        sessions.absorb(&served(1, 7, Standing::Running));
        sessions.absorb(&served(2, 0, Standing::Waiting));
        let html = written(|page| sessions.write(page));
        for part in ["192.0.2.1:1", "1.00 Mbit/s", "running, 2.00 s", "waiting"] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("Over"), "{html}");
        sessions.absorb(&served(1, 7, Standing::Ended));
        sessions.absorb(&served(2, 8, Standing::Running));
        let html = written(|page| sessions.write(page));
        let (now, over) = html.split_once("Over").unwrap();
        assert!(now.contains("192.0.2.1:2") && !now.contains("192.0.2.1:1<"), "{html}");
        assert!(over.contains("192.0.2.1:1<"), "{html}");
    }

    #[test]
    fn tiles_tell_what_the_server_does_now_over_all_protocols() {
        let mut sessions = Sessions::default();
        sessions.absorb(&served(1, 7, Standing::Running));
        sessions.absorb(&served(2, 8, Standing::Running));
        sessions.absorb(&served(2, 8, Standing::Ended));
        let interval = |rx_bytes, in_flight, network_errors| {
            let local = Traffic { rx_bytes, tx_bytes: 0, ns: SECOND, ..Traffic::default() };
            Interval { local, in_flight, network_errors, ..Interval::default() }
        };
        sessions.absorb_side("ttcp", &Event::Interval(Box::new(interval(125_000, 2, 1))));
        let tiles = sessions.tiles(Some(&interval(250_000, 8, 0)));
        let told: Vec<(&str, &str)> = tiles.iter().map(|(name, value, _)| (&**name, &**value)).collect();
        // 375,000 bytes a second are 3 Mbit/s.
        let sums = [
            ("sessions", "1"),
            ("from clients", "3.00 Mbit/s"),
            ("to clients", "0 bit/s"),
            ("connections", "10"),
            ("errors", "1"),
        ];
        assert_eq!(told, sums);
        assert_eq!(tiles[0].2, "1 over");
    }

    #[test]
    fn a_server_that_has_served_many_stays_small() {
        let mut sessions = Sessions::default();
        for port in 1..=2_000 {
            sessions.absorb(&served(port, port.into(), Standing::Running));
            sessions.absorb(&served(port, port.into(), Standing::Lost));
        }
        assert_eq!((sessions.now.len(), sessions.ended.len()), (0, MOST_ENDED));
        let html = written(|page| sessions.write(page));
        assert!(html.contains("The latest 100 of 2000 that are over") && html.contains("lost"), "{html}");
        for port in 1..=2_000 {
            sessions.absorb(&served(port, port.into(), Standing::Running));
        }
        assert!(written(|page| sessions.write(page)).contains("and 1800 more"));
    }

    #[test]
    fn sessions_of_another_protocol_have_its_name() {
        let mut sessions = Sessions::default();
        sessions.absorb_side("ttcp", &served(1, 3, Standing::Running));
        assert!(written(|page| sessions.write(page)).contains("ttcp 3"));
        sessions.absorb_side("ttcp", &served(1, 3, Standing::Lost));
        assert!(sessions.now.is_empty());
    }

    #[test]
    fn what_no_row_counts_is_said() {
        let address = SocketAddr::from(([192, 0, 2, 9], 5001));
        let row = LinkRow { local: address, remote: address, since: Wall(0), tx_bytes: 0, rx_bytes: 1 };
        let links = Links { worker: 0, at: Wall(1), ns: 1, rows: vec![row], more: 744 };
        let mut sessions = Sessions::default();
        sessions.absorb_side("ttcp", &Event::Links(Box::new(links)));
        let html = written(|page| sessions.write(page));
        assert!(html.contains("at least 1") && html.contains("and 744 more connections of ttcp"), "{html}");
    }

    fn row(port: u16, rx_bytes: u64) -> LinkRow {
        let at = |last, port| SocketAddr::from(([192, 0, 2, last], port));
        LinkRow { local: at(1, 5001), remote: at(2, port), since: Wall(0), tx_bytes: 0, rx_bytes }
    }

    fn list(worker: u32, seconds: u64, rows: Vec<LinkRow>) -> Links {
        Links { worker, at: Wall((seconds * SECOND) as i64), ns: SECOND, rows, more: 0 }
    }

    #[test]
    fn what_is_new_is_the_rate_and_all_is_the_sum() {
        let mut serving = Serving::default();
        serving.update("ttcp", &list(0, 1, vec![row(7, 1_000)]));
        serving.update("ttcp", &list(0, 2, vec![row(7, 126_000)]));
        let rows = serving.rows();
        assert_eq!((rows.len(), rows[0].client.as_str()), (1, "192.0.2.2:7"));
        assert_eq!((rows[0].load.latest.rx_bps(), rows[0].load.total.rx_bytes), (1e6, 126_000));
        assert_eq!(rows[0].load.total.ns, 2 * SECOND);
        // Another of the same client, at another worker, and one that came with the same port
        // again.
        let since = |seconds: u64, row| LinkRow { since: Wall((seconds * SECOND) as i64), ..row };
        serving.update("ttcp", &list(1, 2, vec![since(1, row(8, 125_000))]));
        serving.update("ttcp", &list(0, 3, vec![since(2, row(7, 5_000))]));
        let rows = serving.rows();
        assert_eq!((rows[0].client.as_str(), rows[0].load.open), ("192.0.2.2", 2));
        assert_eq!((rows[0].load.latest.rx_bytes, rows[0].load.total.rx_bytes), (130_000, 130_000));
    }

    #[test]
    fn whoever_is_gone_is_not_there() {
        let mut serving = Serving::default();
        serving.update("echo", &list(0, 1, vec![row(7, 1)]));
        serving.update("ttcp", &list(0, 1, vec![row(7, 1)]));
        serving.update("echo", &list(0, 2, Vec::new()));
        assert_eq!(serving.rows().len(), 1);
        serving.remove("ttcp");
        assert!(serving.rows().is_empty());
    }

    #[test]
    fn one_that_had_no_place_in_the_list_before_has_not_moved_all_of_it_now() {
        let mut serving = Serving::default();
        serving.update("ttcp", &Links { more: 3, ..list(0, 9, vec![row(7, 1_000)]) });
        assert_eq!(serving.more(), BTreeMap::from([("ttcp", 3)]));
        assert!(serving.rows()[0].at_least);
        // It is ten seconds old.
        serving.update("ttcp", &list(0, 10, vec![row(8, 10_000)]));
        let rows = serving.rows();
        assert_eq!((rows[0].load.latest.rx_bytes, rows[0].load.latest.ns), (1_000, SECOND));
        assert_eq!(rows[0].load.total.rx_bytes, 10_000);
        assert!(serving.more().is_empty() && !rows[0].at_least);
    }
}
