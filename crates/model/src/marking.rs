//! Marking of packets, one direction at a time: class of service and ECN codepoint as they were sent
//! and as they arrived. All questions pass through here, and all sentences about it are here.

use crate::{Point, Totals, Way};
use metrics::{DistSummary, Ecn, EcnPairs, IpFields, TcpEcn, dscp_name, format_percent, percent_of};
use serde::{Deserialize, Serialize};

/// Probability below which unequal losses of two codepoints are no chance. Two directions raise at
/// most 2 false alarms in 100 runs.
const LEVEL: f64 = 0.01;

/// Marking of the packets of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Marking {
    /// The receiving end.
    pub to: String,
    /// True for packets to the server.
    pub up: bool,
    /// DSCP of the sent packets, where it is known.
    pub sent_dscp: Option<u8>,
    /// ECN codepoints of the sent packets, where they are known: two of datagrams in pairs.
    pub sent_ecn: Vec<Ecn>,
    /// IP fields as the packets arrived; of TCP the DSCP alone.
    pub arrived: IpFields,
    /// Percent of the arrived packets with CE; `None` where none is counted.
    pub ce_percent: Option<f64>,
    /// Of datagrams in pairs, the probability that the losses of both codepoints would be as
    /// unequal if losses did not depend on the codepoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_p: Option<f64>,
    /// Changes of the codepoints on the way, in words.
    pub findings: Vec<String>,
    /// ECN of the receiving end's TCP connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpEcn>,
    /// True if codepoints other than CE changed on the way.
    pub ecn_changed: bool,
    /// The codepoint that was lost more often than the other, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loses_more: Option<String>,
}

impl Marking {
    /// The directions of a phase whose marking was asked for, or is other than the default.
    pub fn all(point: &Point) -> Vec<Marking> {
        let (local, servers) = (&point.local, &point.remote);
        let here = of_end(point, "this host", local, servers.first(), false);
        let there =
            servers.iter().map(|end| of_end(point, &format!("server {}", end.who), end, Some(local), true));
        let reflected = local.pings.as_ref().and_then(|trips| Some(trips.ways.as_ref()?.facts.there_marks));
        let reflected = reflected.map(|arrived| {
            let sent = point.phase.sockets.class();
            Marking { to: "the reflector".to_owned(), up: true, arrived, ..Marking::default() }
                .sent(sent)
                .judged(None)
        });
        let asked = point.phase.sockets.class().is_some();
        let is_seen = |m: &Marking| m.is_marked() || (asked && m.arrived.dscp.is_some());
        std::iter::once(here).chain(there).chain(reflected).filter(is_seen).collect()
    }

    /// True if any packet arrived in another class than the default, or with an ECN codepoint.
    fn is_marked(&self) -> bool {
        let classed = self.arrived.dscp.is_some_and(|(_, most)| most > 0);
        classed || self.arrived.ecn[1..].iter().any(|n| *n > 0) || self.tcp.is_some()
    }

    fn sent(self, tos: Option<u8>) -> Marking {
        Marking {
            sent_dscp: tos.map(|tos| tos >> 2),
            sent_ecn: tos.map(Ecn::of).into_iter().collect(),
            ..self
        }
    }

    /// IP fields of all packets of this direction; `None` unless they were sent with a codepoint of
    /// [`Ecn::Ect0`] or [`Ecn::Ect1`], or one arrived with CE.
    fn ecn_of(point: &Point, way: Way) -> Option<IpFields> {
        let all = point.marking.iter().filter(|marking| marking.up == (way == Way::Up));
        let all: Vec<&Marking> =
            all.filter(|marking| marking.is_capable() || marking.arrived.count(Ecn::Ce) > 0).collect();
        metrics::sum_of(all.into_iter().map(|marking| marking.arrived), IpFields::add)
    }

    /// True if datagrams were sent with ECT(0) or ECT(1).
    fn is_capable(&self) -> bool {
        self.sent_ecn.iter().any(|sent| matches!(sent, Ecn::Ect0 | Ecn::Ect1))
    }

    /// Percent of the datagrams of a direction that arrived with CE.
    pub(crate) fn ce_percent_of(point: &Point, way: Way) -> Option<f64> {
        Marking::ecn_of(point, way)?.percent(Ecn::Ce)
    }

    /// Percent of the datagrams of a direction that were sent with a codepoint and arrived without;
    /// `None` of pairs, of which some may have been sent so.
    pub(crate) fn cleared_percent_of(point: &Point, way: Way) -> Option<f64> {
        let sent_alike = point.marking.iter().any(|m| m.sent_ecn.len() == 1 && m.is_capable());
        Marking::ecn_of(point, way)?.percent(Ecn::Off).filter(|_| sent_alike)
    }

    /// The class with which packets arrived, where that is not the sent one: `sent EF, arrived as
    /// 0`.
    pub fn class_changed(&self) -> Option<String> {
        let (sent, (least, most)) = (self.sent_dscp?, self.arrived.dscp?);
        ((least, most) != (sent, sent))
            .then(|| format!("sent {}, arrived as {}", class(sent), classes((least, most))))
    }

    /// Adds the findings about codepoints.
    fn judged(mut self, pairs: Option<&EcnPairs<Option<DistSummary>>>) -> Marking {
        self.ce_percent = self.arrived.percent(Ecn::Ce);
        let counts: Vec<(Ecn, [u64; 4])> = match pairs {
            Some(pairs) => pairs.sides.iter().map(|side| (side.sent, side.arrived)).collect(),
            None => self.sent_ecn.first().map(|sent| (*sent, self.arrived.ecn)).into_iter().collect(),
        };
        for (sent, ecn) in counts {
            self.compare(sent, IpFields { ecn, ..IpFields::default() });
        }
        let (ce, all) = (self.arrived.count(Ecn::Ce), self.arrived.all());
        if ce > 0 && self.is_capable() {
            self.findings.push(format!("CE marks {}", format_percent(percent_of(ce, all))));
        }
        if let Some((pairs, (side, p))) = pairs.and_then(|pairs| Some((pairs, pairs.loses_more()?))) {
            self.loss_p = Some(p);
            let (more, less) = (&pairs.sides[side], &pairs.sides[1 - side]);
            let share = |loss: Option<f64>| format_percent(100.0 * loss.unwrap_or(0.0));
            self.loses_more = (p < LEVEL).then(|| {
                let (more_share, less_share) = (share(more.loss()), share(less.loss()));
                format!(
                    "{} loses more than {}: {more_share} against {less_share}",
                    more.sent.name(),
                    less.sent.name()
                )
            });
            self.findings.extend(self.loses_more.clone());
        }
        self
    }

    /// Adds the findings about the TCP connections of the receiving end, which received `bytes`.
    fn of_tcp(mut self, tcp: Option<TcpEcn>, bytes: u64) -> Marking {
        let Some(tcp) = tcp.filter(|tcp| tcp.negotiated > 0) else { return self };
        self.tcp = Some(tcp);
        self.ce_percent = tcp.received_ce_percent();
        // Acknowledgements without payload have no codepoint.
        if bytes > 0 && tcp.seen == 0 {
            self.ecn_changed = true;
            self.findings.push("ECN was negotiated, Not-ECT arrived: cleared between the hosts".to_owned());
        }
        if let Some(percent) = self.ce_percent.filter(|percent| *percent > 0.0) {
            self.findings.push(format!("CE marks {}", format_percent(percent)));
        }
        self
    }

    /// Compares the codepoint of sent packets with the arrived ones. CE is a router's answer to
    /// ECT.
    fn compare(&mut self, sent: Ecn, arrived: IpFields) {
        for other in Ecn::ALL.into_iter().filter(|other| *other != sent && arrived.count(*other) > 0) {
            if other == Ecn::Ce && sent != Ecn::Off {
                continue;
            }
            let share = match arrived.percent(other) {
                Some(percent) if arrived.count(other) < arrived.all() => {
                    format!(" in {} of the datagrams", format_percent(percent))
                }
                _ => String::new(),
            };
            let how = if other == Ecn::Off { "cleared" } else { "changed" };
            self.ecn_changed = true;
            let (sent, other) = (sent.name(), other.name());
            self.findings.push(format!("{sent} was sent, {other} arrived{share}: {how} between the hosts"));
        }
    }
}

impl Totals {
    /// Keeps the IP fields of the counts of datagrams alone: messages of round trips are counted in
    /// `pings`.
    pub fn keep_marks(&mut self) {
        self.marks = self.packets.take().map(|packets| packets.marks).filter(|marks| !marks.is_empty());
    }
}

/// `EF` and other classes of service by name, or the number.
fn class(dscp: u8) -> String {
    dscp_name(dscp).unwrap_or_else(|| dscp.to_string())
}

/// A class, or `0 to EF`.
pub fn classes((least, most): (u8, u8)) -> String {
    if least == most { class(least) } else { format!("{} to {}", class(least), class(most)) }
}

/// Marking of the packets that `end` received of `sender`.
fn of_end(point: &Point, to: &str, end: &Totals, sender: Option<&Totals>, up: bool) -> Marking {
    let asked = &point.phase.sockets;
    let tos = sender.and_then(|sender| sender.effective.as_ref()?.tos);
    let of_schedule = end.packets.as_deref().map(|packets| packets.marks);
    let of_tcp = IpFields { dscp: end.tcp.dscp, ..IpFields::default() };
    let arrived = of_schedule.or(end.marks).unwrap_or(of_tcp);
    // A server of another program may have set no class: its own report says so, unless both ends
    // follow one schedule.
    let sent = tos.or_else(|| asked.class().filter(|_| up || of_schedule.is_some()));
    let mut marking = Marking { to: to.to_owned(), up, arrived, ..Marking::default() }.sent(sent);
    if arrived.all() == 0 {
        // TCP's kernel sets the codepoint of each packet.
        marking.sent_ecn.clear();
    }
    // A server of an older version sends no pairs, and does not set the codepoint.
    let is_kept = marking.sent_ecn.first() == asked.ecn.as_ref();
    let paired = point.phase.probe.and_then(|probe| probe.paired).filter(|_| is_kept);
    marking.sent_ecn.extend(paired);
    let pairs = end.packets.as_deref().and_then(|packets| packets.pairs.as_deref());
    marking.judged(pairs.filter(|_| paired.is_some())).of_tcp(end.tcp.ecn, end.traffic.rx_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effective, Kind, PacketReport, Phase, Ping, Probe, RoundTrips, SocketSettings, Transport};
    use metrics::{EcnBytes, PairSide};

    /// A run whose datagrams were asked to be sent with this class, and which both ends set.
    fn run(kind: Kind, tos: u8) -> Point {
        let sockets =
            SocketSettings { dscp: Some(tos >> 2), ecn: Some(Ecn::of(tos)), ..SocketSettings::default() };
        let (probe, ping) = match kind {
            Kind::Ping => (None, Some(Ping { transport: Transport::Udp, ..Ping::default() })),
            _ => (Some(Probe::default()), None),
        };
        let effective = Some(Effective { tos: Some(tos), ..Effective::default() });
        let end =
            |who: &str| Totals { who: who.to_owned(), effective: effective.clone(), ..Totals::default() };
        Point {
            phase: Phase { kind, sockets, probe, ping, ..Phase::default() },
            local: end(""),
            remote: vec![end("b")],
            ..Point::default()
        }
    }

    /// IP fields of 100 datagrams, of which so many arrived with each octet.
    fn fields(octets: &[(u8, u64)]) -> IpFields {
        let mut fields = IpFields::default();
        octets.iter().for_each(|(tos, n)| fields.see(63, *tos, *n));
        fields
    }

    fn packets(marks: IpFields) -> Option<Box<PacketReport>> {
        let datagrams = metrics::Datagrams { marks, ..Default::default() };
        let report = PacketReport { datagrams, ..PacketReport::default() };
        Some(Box::new(report))
    }

    #[test]
    fn each_direction_has_its_findings() {
        let mut point = run(Kind::Delay, 46 << 2 | 2);
        point.remote[0].packets = packets(fields(&[(46 << 2, 100)]));
        point.local.packets = packets(fields(&[(46 << 2 | 2, 979), (46 << 2 | 3, 21)]));
        let all = Marking::all(&point);
        let [here, there] = &all[..] else { panic!("{all:?}") };
        assert_eq!(
            (here.to.as_str(), here.up, there.to.as_str(), there.up),
            ("this host", false, "server b", true)
        );
        assert_eq!((here.class_changed(), there.sent_dscp), (None, Some(46)));
        assert_eq!((here.ce_percent, &here.findings[..]), (Some(2.1), &["CE marks 2.1 %".to_owned()][..]));
        assert!(!here.ecn_changed && there.ecn_changed);
        assert_eq!(there.findings, ["ECT(0) was sent, Not-ECT arrived: cleared between the hosts"]);
        point.marking = all;
        let of = |way| [Marking::ce_percent_of(&point, way), Marking::cleared_percent_of(&point, way)];
        assert_eq!((of(Way::Down), of(Way::Up)), ([Some(2.1), Some(0.0)], [Some(0.0), Some(100.0)]));
    }

    #[test]
    fn a_part_is_named_and_marks_of_unmarked_datagrams_are_no_congestion() {
        let mut point = run(Kind::Delay, 1);
        point.remote[0].packets = packets(fields(&[(1, 880), (0, 120)]));
        let found =
            |point: &Point| Marking::all(point).into_iter().flat_map(|m| m.findings).collect::<Vec<_>>();
        assert_eq!(
            found(&point),
            ["ECT(1) was sent, Not-ECT arrived in 12 % of the datagrams: cleared between the hosts"]
        );
        let mut point = run(Kind::Delay, 0);
        point.remote[0].packets = packets(fields(&[(0, 50), (3, 50)]));
        assert_eq!(
            found(&point),
            ["Not-ECT was sent, CE arrived in 50 % of the datagrams: changed between the hosts"]
        );
        point.remote[0].packets = packets(fields(&[(0, 50)]));
        assert!(found(&point).is_empty());
    }

    #[test]
    fn messages_of_round_trips_have_a_class_at_both_ends() {
        let mut point = run(Kind::Ping, 46 << 2);
        point.local.pings = Some(Box::new(RoundTrips::default()));
        point.local.packets = packets(fields(&[(0, 10)]));
        point.local.keep_marks();
        point.remote[0].marks = Some(fields(&[(8 << 2, 10)]));
        let all = Marking::all(&point);
        let changed: Vec<_> = all.iter().filter_map(Marking::class_changed).collect();
        assert_eq!(changed, ["sent EF, arrived as 0", "sent EF, arrived as CS1"]);
        assert!(point.local.packets.is_none());
        // The class of another program's answers is unknown.
        point.remote[0].effective = None;
        point.remote[0].marks = None;
        let all = Marking::all(&point);
        assert_eq!((all.len(), all[0].class_changed(), all[0].arrived.dscp), (1, None, Some((0, 0))));
    }

    #[test]
    fn tcp_that_negotiated_ecn_sees_it_or_not() {
        let mut point =
            Point { remote: vec![Totals { who: "b".to_owned(), ..Totals::default() }], ..Point::default() };
        let ecn = TcpEcn { connections: 2, negotiated: 2, seen: 0, ..TcpEcn::default() };
        (point.local.tcp.ecn, point.remote[0].tcp.ecn) = (Some(ecn), Some(ecn));
        point.remote[0].traffic.rx_bytes = 1_000;
        let all = Marking::all(&point);
        let changed: Vec<bool> = all.iter().map(|marking| marking.ecn_changed).collect();
        assert_eq!(changed, [false, true], "{all:?}");
        let received_bytes = Some(EcnBytes { ect1: 0, ect0: 950, ce: 50 });
        point.remote[0].tcp.ecn = Some(TcpEcn { seen: 2, received_bytes, ..ecn });
        assert_eq!(Marking::all(&point)[1].findings, ["CE marks 5 %"]);
        point.local.tcp.ecn = Some(TcpEcn { negotiated: 0, ..ecn });
        assert_eq!(Marking::all(&point).len(), 1);
    }

    #[test]
    fn nothing_is_said_of_a_default_and_of_a_server_that_sends_no_pairs() {
        let mut point = run(Kind::Delay, 1);
        point.phase.probe = Some(Probe { paired: Some(Ecn::Off), ..Probe::default() });
        point.remote[0].effective = Some(Effective { tos: Some(0), ..Effective::default() });
        point.local.packets = packets(fields(&[(0, 100)]));
        let mut pairs = EcnPairs::default();
        pairs.sides[0] =
            PairSide { sent: Ecn::Ect1, lost_alone: 20, arrived: [50, 0, 0, 0], ..PairSide::default() };
        point.local.packets.as_mut().unwrap().pairs = Some(Box::new(pairs));
        let all = Marking::all(&point);
        assert_eq!((all.len(), all[0].findings.len(), all[0].loss_p), (1, 0, None));
        point.phase.sockets = SocketSettings::default();
        assert!(Marking::all(&point).is_empty());
    }
}
