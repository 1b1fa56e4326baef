//! Sessions of a server: running ones, ended ones, and links of the other protocols.

mod links;

use super::first::Tile;
use super::{escape, utc};
use crate::text::{Column, or_dash};
use crate::words;
use links::Serving;
use metrics::{Clamped, Wall, format_bits_per_second, format_bytes, format_duration};
use model::{ConnectionRecord, Event, Interval, Served, Standing, Traffic};
use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Rows of a table; of more the first are shown, and how many there are.
const MOST_ROWS: usize = 200;
const MOST_ENDED: usize = 100;
/// Clients of protocols that know no sessions, by address.
const MOST_CLIENTS: usize = 200;

/// A session of any protocol.
#[derive(Clone, Debug)]
struct Row {
    protocol: &'static str,
    /// Its number among those of its protocol; `None` where the protocol knows none, or it has not begun.
    session: Option<u64>,
    client: String,
    what: String,
    standing: &'static str,
    since: Wall,
    latest: Traffic,
    total: Traffic,
    open: u64,
    opened: u64,
    /// Whether more may be open that were not listed.
    at_least: bool,
    errors: u64,
    /// Names the run on both ends, where the protocol has such a name.
    run: String,
}

/// A protocol that goes along with the server's own.
#[derive(Clone, Debug, Default)]
struct Service {
    latest: Traffic,
    total: Traffic,
    open: u64,
    opened: u64,
    errors: u64,
}

/// A client of such a protocol: sums over its ended connections.
#[derive(Clone, Copy, Debug, Default)]
struct Client {
    connections: u64,
    failed: u64,
    tx_bytes: u64,
    rx_bytes: u64,
}

/// All that a server says of its clients. It stays small however many there have been.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    now: BTreeMap<(&'static str, SocketAddr), Row>,
    ended: VecDeque<Row>,
    over: u64,
    /// Clients of protocols that know none.
    serving: Serving,
    services: BTreeMap<&'static str, Service>,
    clients: BTreeMap<(&'static str, IpAddr), Client>,
}

const OWN: &str = "native";

impl Sessions {
    /// Takes in an event of the server's own protocol.
    pub(super) fn hear(&mut self, event: &Event) {
        if let Event::Served(served) = event {
            self.served(OWN, served);
        }
    }

    /// Takes in an event of a protocol that goes along.
    pub(super) fn hear_beside(&mut self, protocol: &'static str, event: &Event) {
        match event {
            Event::Interval(interval) => {
                let service = self.services.entry(protocol).or_default();
                service.latest = interval.local;
                service.total.after(&interval.local);
                service.open = interval.in_flight;
                service.opened += interval.opened;
                service.errors = interval.network_errors + interval.data_errors;
            }
            Event::Connection(record) => self.connection(protocol, record),
            Event::Links(links) => self.serving.hear(protocol, links),
            Event::PhaseEnd { .. } => self.serving.over(protocol),
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

    /// What the server does now, all protocols together; `own` is the latest interval of its own protocol.
    pub(super) fn tiles(&self, own: Option<&Interval>) -> Vec<Tile> {
        let own = own.map(|own| (own.local, own.in_flight, own.network_errors + own.data_errors));
        let others = self.services.values().map(|service| (service.latest, service.open, service.errors));
        let (mut from, mut to, mut open, mut errors) = (0.0, 0.0, 0, 0);
        for (latest, connections, failed) in others.chain(own) {
            (from, to) = (from + latest.rx_bps(), to + latest.tx_bps());
            (open, errors) = (open + connections, errors + failed);
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

    pub(super) fn html(&self) -> String {
        let mut out = String::from("<section id=\"sessions\"><h2>Sessions</h2>\n");
        let unnamed = self.serving.rows();
        let all = self.now.len() + unnamed.len();
        if all == 0 {
            out.push_str("<p>No client is connected.</p>\n");
        } else {
            let more = all.saturating_sub(MOST_ROWS);
            let rows = self.now.values().chain(&unnamed).take(MOST_ROWS);
            table("In progress", &SESSION, rows.map(|row| (row.errors > 0, row)), &mut out);
            if more > 0 {
                out.push_str(&format!("<p class=\"soft\">and {more} more</p>\n"));
            }
        }
        for (protocol, n) in self.serving.more() {
            let more = words::count(n, "more connection");
            out.push_str(&format!("<p class=\"soft\">and {more} of {protocol} that no row counts</p>\n"));
        }
        if !self.ended.is_empty() {
            let title = match usize::clamped(self.over) {
                n if n > self.ended.len() => format!("The latest {} of {n} that are over", self.ended.len()),
                _ => "Over".to_owned(),
            };
            table(&title, &ENDED, self.ended.iter().map(|row| (row.errors > 0, row)), &mut out);
        }
        if !self.services.is_empty() {
            let row =
                |(name, service): (&&'static str, &Service)| (service.errors > 0, (*name, service.clone()));
            let rows = self.services.iter().map(row);
            table("Protocols that go along", &SERVICE, rows, &mut out);
        }
        if !self.clients.is_empty() {
            let rows = self
                .clients
                .iter()
                .map(|((protocol, address), client)| (client.failed > 0, (*protocol, *address, *client)));
            table("Their clients, by connections that have ended", &CLIENT, rows, &mut out);
        }
        out.push_str("</section>\n");
        out
    }
}

const SESSION: [Column<Row>; 12] = [
    ("session", name),
    ("client", |row| row.client.clone()),
    ("from it now", |row| format_bits_per_second(row.latest.rx_bps())),
    ("to it now", |row| format_bits_per_second(row.latest.tx_bps())),
    ("stands", standing),
    ("what", |row| row.what.clone()),
    ("connections", |row| match row.at_least {
        true => format!("at least {}", row.open),
        false => format!("{} of {}", row.open, row.opened),
    }),
    ("errors", |row| row.errors.to_string()),
    ("received", |row| format_bytes(row.total.rx_bytes)),
    ("sent", |row| format_bytes(row.total.tx_bytes)),
    ("since (UTC)", since),
    ("run", run),
];
const ENDED: [Column<Row>; 10] = [
    ("session", name),
    ("client", |row| row.client.clone()),
    ("ended", standing),
    ("what", |row| row.what.clone()),
    ("connections", |row| row.opened.to_string()),
    ("errors", |row| row.errors.to_string()),
    ("received", |row| format_bytes(row.total.rx_bytes)),
    ("sent", |row| format_bytes(row.total.tx_bytes)),
    ("started (UTC)", since),
    ("run", run),
];
/// Columns of text.
const WORDS: [&str; 5] = ["client", "stands", "ended", "what", "run"];
const SERVICE: [Column<(&str, Service)>; 7] = [
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

fn session(protocol: &'static str, served: &Served) -> Row {
    Row {
        protocol,
        session: Some(served.number).filter(|number| *number > 0),
        client: served.peer.to_string(),
        what: served.phase.as_deref().map(words::phase).unwrap_or_default(),
        standing: match served.standing {
            Standing::Waiting => "waiting",
            Standing::Granted => "granted",
            Standing::Running => "running",
            Standing::Ended => "ended",
            Standing::Lost => "lost",
        },
        since: served.since,
        latest: served.latest,
        total: served.total,
        open: served.open,
        opened: served.opened,
        at_least: false,
        errors: served.errors + u64::from(served.standing == Standing::Lost),
        run: Some(served.run).filter(|run| !run.is_nil()).map(|run| run.to_string()).unwrap_or_default(),
    }
}

fn name(row: &Row) -> String {
    match (row.protocol, row.session) {
        (OWN, number) => or_dash(number, |n| n.to_string()),
        (protocol, None) => protocol.to_owned(),
        (protocol, Some(n)) => format!("{protocol} {n}"),
    }
}

fn standing(row: &Row) -> String {
    match row.total.ns {
        0 => row.standing.to_owned(),
        ns => format!("{}, {}", row.standing, format_duration(ns)),
    }
}

fn since(row: &Row) -> String {
    utc(row.since).trim_end_matches(" UTC").to_owned()
}

fn run(row: &Row) -> String {
    row.run.get(..8).unwrap_or_default().to_owned()
}

/// A table of rows, bad ones in another colour. Escapes all texts.
fn table<T, Item: Borrow<T>>(
    title: &str,
    columns: &[Column<T>],
    rows: impl Iterator<Item = (bool, Item)>,
    out: &mut String,
) {
    out.push_str(&format!(
        "<h3>{}</h3>\n<div class=\"wide\"><table class=\"numbers\"><thead><tr>",
        escape(title)
    ));
    let class = |name: &str| match name {
        "what" => " class=\"text what\"",
        name if WORDS.contains(&name) => " class=\"text\"",
        _ => "",
    };
    for (name, _) in columns {
        out.push_str(&format!("<th scope=\"col\"{}>{}</th>", class(name), escape(name)));
    }
    out.push_str("</tr></thead><tbody>\n");
    for (bad, row) in rows {
        out.push_str(if bad { "<tr class=\"bad\">" } else { "<tr>" });
        for (at, (name, cell)) in columns.iter().enumerate() {
            let cell = cell(row.borrow());
            out.push_str(&match at {
                0 => format!("<th scope=\"row\">{}</th>", escape(&cell)),
                _ => format!("<td{}>{}</td>", class(name), escape(&cell)),
            });
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
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
            latest: Traffic { tx_bytes: 0, rx_bytes: 125_000, ns: SECOND },
            total: Traffic { tx_bytes: 0, rx_bytes: 250_000, ns: 2 * SECOND },
            open: 8,
            opened: 9,
            errors: 0,
        }))
    }

    #[test]
    fn sessions_are_in_progress_until_they_are_over() {
        let mut sessions = Sessions::default();
        sessions.hear(&served(1, 7, Standing::Running));
        sessions.hear(&served(2, 0, Standing::Waiting));
        let html = sessions.html();
        assert!(
            html.contains("192.0.2.1:1") && html.contains("1.00 Mbit/s") && html.contains("running, 2.00 s"),
            "{html}"
        );
        assert!(html.contains("waiting") && !html.contains("Over"), "{html}");
        sessions.hear(&served(1, 7, Standing::Ended));
        sessions.hear(&served(2, 8, Standing::Running));
        let html = sessions.html();
        let (now, over) = html.split_once("Over").unwrap();
        assert!(now.contains("192.0.2.1:2") && !now.contains("192.0.2.1:1<"), "{html}");
        assert!(over.contains("192.0.2.1:1<"), "{html}");
    }

    #[test]
    fn tiles_tell_what_the_server_does_now_over_all_protocols() {
        let mut sessions = Sessions::default();
        sessions.hear(&served(1, 7, Standing::Running));
        sessions.hear(&served(2, 8, Standing::Running));
        sessions.hear(&served(2, 8, Standing::Ended));
        let interval = |rx_bytes, in_flight, network_errors| Interval {
            local: Traffic { rx_bytes, tx_bytes: 0, ns: SECOND },
            in_flight,
            network_errors,
            ..Interval::default()
        };
        sessions.hear_beside("ttcp", &Event::Interval(Box::new(interval(125_000, 2, 1))));
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
            sessions.hear(&served(port, port.into(), Standing::Running));
            sessions.hear(&served(port, port.into(), Standing::Lost));
        }
        assert_eq!((sessions.now.len(), sessions.ended.len()), (0, MOST_ENDED));
        let html = sessions.html();
        assert!(html.contains("The latest 100 of 2000 that are over") && html.contains("lost"), "{html}");
        for port in 1..=2_000 {
            sessions.hear(&served(port, port.into(), Standing::Running));
        }
        assert!(sessions.html().contains("and 1800 more"));
    }

    #[test]
    fn sessions_of_another_protocol_have_its_name() {
        let mut sessions = Sessions::default();
        sessions.hear_beside("ttcp", &served(1, 3, Standing::Running));
        assert!(sessions.html().contains("ttcp 3"));
        sessions.hear_beside("ttcp", &served(1, 3, Standing::Lost));
        assert!(sessions.now.is_empty());
    }

    #[test]
    fn what_no_row_counts_is_said() {
        let address = SocketAddr::from(([192, 0, 2, 9], 5001));
        let row =
            model::LinkRow { local: address, remote: address, since: Wall(0), tx_bytes: 0, rx_bytes: 1 };
        let links = model::Links { worker: 0, at: Wall(1), ns: 1, rows: vec![row], more: 744 };
        let mut sessions = Sessions::default();
        sessions.hear_beside("ttcp", &Event::Links(Box::new(links)));
        let html = sessions.html();
        assert!(html.contains("at least 1") && html.contains("and 744 more connections of ttcp"), "{html}");
    }
}
