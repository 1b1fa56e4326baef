//! Clients of protocols that know no sessions, while they are served: what stands open between them and us, a row for each address.

use super::Row;
use metrics::{Clamped, Wall};
use model::{LinkRow, Links, Traffic};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A worker's last list, and what is new in it.
#[derive(Clone, Debug)]
struct List {
    at: Wall,
    rows: Vec<(LinkRow, Traffic)>,
    /// Open connections that are not among them.
    more: u64,
}

/// The latest lists of all workers, by protocol.
#[derive(Clone, Debug, Default)]
pub(super) struct Serving(BTreeMap<(&'static str, u32), List>);

impl Serving {
    /// Takes in a worker's list.
    pub(super) fn hear(&mut self, protocol: &'static str, links: &Links) {
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
            }
        };
        let rows = links.rows.iter().map(|row| (*row, latest(row))).collect();
        self.0.insert(key, List { at: links.at, rows, more: links.more });
    }

    /// A protocol's server has ended.
    pub(super) fn over(&mut self, protocol: &'static str) {
        self.0.retain(|(of, _), _| *of != protocol);
    }

    /// Open connections that are in no row, by protocol.
    pub(super) fn more(&self) -> BTreeMap<&'static str, u64> {
        let mut more = BTreeMap::new();
        for ((protocol, _), list) in self.0.iter().filter(|(_, list)| list.more > 0) {
            *more.entry(*protocol).or_default() += list.more;
        }
        more
    }

    /// A row for each client's address and protocol.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut clients: BTreeMap<(&'static str, IpAddr), Sum> = BTreeMap::new();
        for ((protocol, _), list) in &self.0 {
            for (row, latest) in &list.rows {
                let client = row.remote.ip().to_canonical();
                clients.entry((*protocol, client)).or_default().add(row, latest, list.at);
            }
        }
        let more = self.more();
        let row = |((protocol, address), sum): ((&'static str, IpAddr), Sum)| Row {
            at_least: more.contains_key(protocol),
            ..sum.row(protocol, address)
        };
        clients.into_iter().map(row).collect()
    }
}

/// What is new of one that the last list did not have: all that it has moved, or, where it began before that list and had no place
/// in it, what is an interval's of it in the mean.
fn newly(row: &LinkRow, links: &Links) -> Traffic {
    let age = u64::try_from(links.at.0.saturating_sub(row.since.0)).unwrap_or(0).max(links.ns).max(1);
    let of = |bytes: u64| u64::clamped(u128::from(bytes) * u128::from(links.ns) / u128::from(age));
    Traffic { tx_bytes: of(row.tx_bytes), rx_bytes: of(row.rx_bytes), ns: links.ns }
}

/// All that stands open with one address.
#[derive(Default)]
struct Sum {
    /// The only one's port, and ours.
    port: u16,
    ports: BTreeSet<u16>,
    since: Option<Wall>,
    latest: Traffic,
    total: Traffic,
    open: u64,
}

impl Sum {
    fn add(&mut self, row: &LinkRow, latest: &Traffic, at: Wall) {
        self.open += 1;
        self.port = row.remote.port();
        self.ports.insert(row.local.port());
        self.since = Some(self.since.map_or(row.since, |since| since.min(row.since)));
        self.latest.beside(latest);
        let ns = u64::try_from(at.0.saturating_sub(row.since.0)).unwrap_or(0);
        self.total.beside(&Traffic { tx_bytes: row.tx_bytes, rx_bytes: row.rx_bytes, ns });
    }

    fn row(self, protocol: &'static str, address: IpAddr) -> Row {
        let client = match self.open {
            1 => std::net::SocketAddr::new(address, self.port).to_string(),
            _ => address.to_string(),
        };
        let ports: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
        let what = match &ports[..] {
            [first, .., last] if ports.len() > 2 => format!("at ports {first} to {last}"),
            [one] => format!("at port {one}"),
            _ => format!("at ports {}", ports.join(" and ")),
        };
        Row {
            protocol,
            session: None,
            client,
            what,
            standing: "served",
            since: self.since.unwrap_or_default(),
            latest: self.latest,
            total: self.total,
            open: self.open,
            opened: self.open,
            at_least: false,
            errors: 0,
            run: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::SECOND;
    use std::net::SocketAddr;

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
        serving.hear("ttcp", &list(0, 1, vec![row(7, 1_000)]));
        serving.hear("ttcp", &list(0, 2, vec![row(7, 126_000)]));
        let rows = serving.rows();
        assert_eq!((rows.len(), rows[0].client.as_str()), (1, "192.0.2.2:7"));
        assert_eq!((rows[0].latest.rx_bps(), rows[0].total.rx_bytes), (1e6, 126_000));
        assert_eq!(rows[0].total.ns, 2 * SECOND);
        // Another of the same client, at another worker, and one that came with the same port again.
        let since = |seconds: u64, row| LinkRow { since: Wall((seconds * SECOND) as i64), ..row };
        serving.hear("ttcp", &list(1, 2, vec![since(1, row(8, 125_000))]));
        serving.hear("ttcp", &list(0, 3, vec![since(2, row(7, 5_000))]));
        let rows = serving.rows();
        assert_eq!((rows[0].client.as_str(), rows[0].open), ("192.0.2.2", 2));
        assert_eq!((rows[0].latest.rx_bytes, rows[0].total.rx_bytes), (130_000, 130_000));
    }

    #[test]
    fn whoever_is_gone_is_not_there() {
        let mut serving = Serving::default();
        serving.hear("echo", &list(0, 1, vec![row(7, 1)]));
        serving.hear("ttcp", &list(0, 1, vec![row(7, 1)]));
        serving.hear("echo", &list(0, 2, Vec::new()));
        assert_eq!(serving.rows().len(), 1);
        serving.over("ttcp");
        assert!(serving.rows().is_empty());
    }

    #[test]
    fn one_that_had_no_place_in_the_list_before_has_not_moved_all_of_it_now() {
        let mut serving = Serving::default();
        serving.hear("ttcp", &Links { more: 3, ..list(0, 9, vec![row(7, 1_000)]) });
        assert_eq!(serving.more(), BTreeMap::from([("ttcp", 3)]));
        assert!(serving.rows()[0].at_least);
        // It is ten seconds old.
        serving.hear("ttcp", &list(0, 10, vec![row(8, 10_000)]));
        let rows = serving.rows();
        assert_eq!((rows[0].latest.rx_bytes, rows[0].latest.ns), (1_000, SECOND));
        assert_eq!(rows[0].total.rx_bytes, 10_000);
        assert!(serving.more().is_empty() && !rows[0].at_least);
    }
}
