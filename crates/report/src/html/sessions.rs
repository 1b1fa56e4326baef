//! Sessions of a server: running ones, ended ones, and links of the other protocols.

mod links;

use super::{escape, utc};
use crate::words;
use links::Serving;
use metrics::{Clamped, Wall, format_bits_per_second, format_bytes, format_duration};
use model::{ConnectionRecord, Event, Served, Standing, Traffic};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Rows of a table; of more the first are shown, and how many there are.
const MOST_ROWS: usize = 200;
const MOST_ENDED: usize = 100;
/// Clients of protocols that know no sessions, by address.
const MOST_CLIENTS: usize = 200;

#[derive(Clone, Copy, Debug)]
enum Session {
    /// Its number among those of its protocol.
    Number(u64),
    /// Nothing: the protocol knows none, or it has not begun.
    None,
}

/// A session of any protocol.
#[derive(Clone, Debug)]
struct Row {
    protocol: &'static str,
    session: Session,
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

    pub(super) fn html(&self) -> String {
        let mut out = String::from("<section id=\"sessions\"><h2>Sessions</h2>\n");
        let unnamed = self.serving.rows();
        let all = self.now.len() + unnamed.len();
        if all == 0 {
            out.push_str("<p>No client is connected.</p>\n");
        } else {
            let more = all.saturating_sub(MOST_ROWS);
            let rows = self.now.values().chain(&unnamed).take(MOST_ROWS);
            table("In progress", &SESSION, rows.map(|row| (row.errors > 0, cells(row, false))), &mut out);
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
            table(&title, &ENDED, self.ended.iter().map(|row| (row.errors > 0, cells(row, true))), &mut out);
        }
        if !self.services.is_empty() {
            let rows = self
                .services
                .iter()
                .map(|(name, service)| (service.errors > 0, service_cells(name, service)));
            table("Protocols that go along", &SERVICE, rows, &mut out);
        }
        if !self.clients.is_empty() {
            let rows =
                self.clients.iter().map(|(key, client)| (client.failed > 0, client_cells(key, client)));
            table("Their clients, by connections that have ended", &CLIENT, rows, &mut out);
        }
        out.push_str("</section>\n");
        out
    }
}

const SESSION: [&str; 12] = [
    "session",
    "client",
    "from it now",
    "to it now",
    "stands",
    "what",
    "connections",
    "errors",
    "received",
    "sent",
    "since (UTC)",
    "run",
];
const ENDED: [&str; 10] = [
    "session",
    "client",
    "ended",
    "what",
    "connections",
    "errors",
    "received",
    "sent",
    "started (UTC)",
    "run",
];
const WORDS: [&str; 5] = ["client", "stands", "ended", "what", "run"];
const SERVICE: [&str; 7] =
    ["protocol", "from clients now", "to clients now", "received", "sent", "connections", "errors"];
const CLIENT: [&str; 6] = ["protocol", "client", "connections", "failed", "received", "sent"];

fn session(protocol: &'static str, served: &Served) -> Row {
    Row {
        protocol,
        session: if served.number == 0 { Session::None } else { Session::Number(served.number) },
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

fn cells(row: &Row, over: bool) -> Vec<String> {
    let name = match (row.protocol, row.session) {
        (OWN, Session::None) => "-".to_owned(),
        (OWN, Session::Number(n)) => n.to_string(),
        (protocol, Session::None) => protocol.to_owned(),
        (protocol, Session::Number(n)) => format!("{protocol} {n}"),
    };
    let standing = match row.total.ns {
        0 => row.standing.to_owned(),
        ns => format!("{}, {}", row.standing, format_duration(ns)),
    };
    let since = utc(row.since).trim_end_matches(" UTC").to_owned();
    let mut cells = vec![name, row.client.clone()];
    if !over {
        cells.extend([row.latest.rx_bps(), row.latest.tx_bps()].map(format_bits_per_second));
    }
    let connections = match (over, row.at_least) {
        (true, _) => row.opened.to_string(),
        (false, true) => format!("at least {}", row.open),
        (false, false) => format!("{} of {}", row.open, row.opened),
    };
    cells.extend([standing, row.what.clone(), connections, row.errors.to_string()]);
    cells.extend([row.total.rx_bytes, row.total.tx_bytes].map(format_bytes));
    cells.extend([since, row.run.get(..8).unwrap_or_default().to_owned()]);
    cells
}

fn service_cells(name: &str, service: &Service) -> Vec<String> {
    vec![
        name.to_owned(),
        format_bits_per_second(service.latest.rx_bps()),
        format_bits_per_second(service.latest.tx_bps()),
        format_bytes(service.total.rx_bytes),
        format_bytes(service.total.tx_bytes),
        format!("{} of {}", service.open, service.opened),
        service.errors.to_string(),
    ]
}

fn client_cells((protocol, address): &(&'static str, IpAddr), client: &Client) -> Vec<String> {
    vec![
        (*protocol).to_owned(),
        address.to_string(),
        client.connections.to_string(),
        client.failed.to_string(),
        format_bytes(client.rx_bytes),
        format_bytes(client.tx_bytes),
    ]
}

/// A table of rows, bad ones in another colour. Escapes all texts.
fn table(title: &str, header: &[&str], rows: impl Iterator<Item = (bool, Vec<String>)>, out: &mut String) {
    out.push_str(&format!(
        "<h3>{}</h3>\n<div class=\"wide\"><table class=\"numbers\"><thead><tr>",
        escape(title)
    ));
    let class = |name: &str| match name {
        "what" => " class=\"text what\"",
        name if WORDS.contains(&name) => " class=\"text\"",
        _ => "",
    };
    for name in header {
        out.push_str(&format!("<th scope=\"col\"{}>{}</th>", class(name), escape(name)));
    }
    out.push_str("</tr></thead><tbody>\n");
    for (bad, cells) in rows {
        out.push_str(if bad { "<tr class=\"bad\">" } else { "<tr>" });
        for (at, (name, cell)) in header.iter().zip(&cells).enumerate() {
            out.push_str(&match at {
                0 => format!("<th scope=\"row\">{}</th>", escape(cell)),
                _ => format!("<td{}>{}</td>", class(name), escape(cell)),
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
