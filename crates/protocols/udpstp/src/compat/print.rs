//! The output: lines while a test goes on, its summary, or one JSON document.

use super::args::{Form, Spec};
use super::json::Json;
use crate::codec::AUTOMATIC;
use crate::report::{Activated, News, Report, Warning, report_of};
use crate::{NAME, Settings};
use ::compat::Text;
use common::capacity::{Counted, Fold};
use metrics::{Wall, real};
use model::{Event, Outcome, Pattern};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Version of the original whose output this is.
const VERSION: &str = "9.0.0";

/// A server as the user named it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) at: SocketAddr,
}

/// The printer of either end.
pub(super) struct Printer {
    spec: Spec,
    /// Version of this program.
    built: String,
    hosts: Vec<Host>,
    fold: Fold,
    connections: usize,
    begun: Option<Wall>,
    last: Wall,
    /// The first connection: number of the test, our end, the server's, and the parameters.
    first: Option<(u16, SocketAddr, SocketAddr)>,
    activated: Option<Activated>,
    /// Exit code, and the messages of the last error and of the one before.
    code: u8,
    messages: [String; 2],
    bleached: bool,
    ended: usize,
    /// Of a server: numbers of the tests' connections by their client.
    numbers: BTreeMap<SocketAddr, u32>,
}

impl Printer {
    pub(super) fn new(spec: &Spec, built: &str, hosts: Vec<Host>) -> Self {
        let connections = spec.connections.map_or(1, |(_, most)| usize::from(most));
        Printer {
            spec: spec.clone(),
            built: built.to_owned(),
            hosts,
            fold: Fold::new(connections),
            connections,
            begun: None,
            last: Wall(0),
            first: None,
            activated: None,
            code: 0,
            messages: Default::default(),
            bleached: false,
            ended: 0,
            numbers: BTreeMap::new(),
        }
    }

    fn is_text(&self) -> bool {
        self.spec.form == Form::Text
    }

    /// The lines at the beginning.
    pub(super) fn banner(&self) -> String {
        let table = self.spec.settings.table();
        let (mode, versions) = match self.spec.upstream {
            Some(_) => ("Client", "20"),
            None => ("Server", "11-20"),
        };
        if !self.is_text() && self.spec.upstream.is_some() {
            return String::new();
        }
        format!(
            "UDP Speed Test\nSoftware Ver: {VERSION}, Protocol Ver: {versions}, Built: netcaliper {}\nMode: {mode}, Payload \
             Default[Max]: {}[{}], Auth: Available, Checksum: Off, Optimizations: SendMMsg()+GSO RecvMMsg()+Trunc\n",
            self.built,
            table.payload(),
            table.longest()
        )
    }

    /// Takes an event in; returns its lines.
    pub(super) fn on_event(&mut self, event: &Event) -> Text {
        let mut out = Text::default();
        if let Event::Start { at } = event {
            self.begun.get_or_insert(*at);
        }
        let Some(report) = report_of(event) else { return out };
        self.last = self.last.max(report.at);
        self.begun.get_or_insert(report.at);
        match self.spec.upstream {
            Some(_) => self.client(&report, &mut out),
            None => self.server(&report, &mut out),
        }
        out
    }

    /// The beginning of a line about connection `n`, where there are such lines.
    fn prefix(&self, n: u32) -> String {
        if self.spec.verbose { format!("[{n}]") } else { String::new() }
    }

    fn error(&mut self, out: &mut Text, code: u8, text: String) {
        // A later error does not replace the reason of the first, but that of a warning.
        if self.code < 50 {
            self.code = code;
        }
        if self.is_text() {
            writeln!(out, "{text}");
        }
        let [last, before] = &mut self.messages;
        *before = std::mem::replace(last, text);
    }

    fn client(&mut self, report: &Report, out: &mut Text) {
        let n = u32::from(report.connection) + 1;
        let id = format!("{}.{}", report.connection, report.test);
        let (local, remote) = (report.local, report.remote);
        let verbose = self.spec.verbose && self.is_text();
        match &report.news {
            News::SetupRequest { .. } if verbose => {
                writeln!(out, "[{n}]Setup request ({id}) sent from {local} to {remote}");
            }
            News::SetupResponse { .. } if verbose => {
                writeln!(out, "[{n}]Setup response ({id}) received from {remote}");
            }
            News::ActivationRequest if verbose => {
                writeln!(out, "[{n}]Test activation request ({id}) sent from {local} to {remote}");
            }
            News::ActivationResponse(activated) => {
                if verbose {
                    writeln!(out, "[{n}]Test activation response ({id}) received from {remote}");
                }
                if self.activated.is_none() {
                    self.first = Some((report.test, local, remote));
                    if self.is_text() {
                        self.parameters(n, report.test, activated, out);
                    }
                    self.activated = Some((**activated).clone());
                }
            }
            News::SubInterval(sub) => {
                if verbose && !self.spec.summary_only {
                    self.interval(Some(n), &Counted::of(sub, report.at), out);
                }
                self.aggregate(report, out);
            }
            News::Warning(warning) => {
                let (code, text) = words(*warning);
                let text = format!("{}{text} [Server {}]", self.prefix(n), self.server_of(report));
                self.error(out, code, text);
            }
            News::Stop if verbose => writeln!(out, "[{n}]Test stop received"),
            News::End(end) => {
                self.bleached |= end.bleached;
                if end.code != 0 {
                    let server = self.server_of(report);
                    let text = failure(end.code, &server, self.activated.is_some());
                    self.error(out, end.code, text);
                }
                if verbose {
                    writeln!(out, "[{n}]End time reached");
                }
                self.ended += usize::from(end.code != 0);
                self.aggregate(report, out);
                let least = usize::from(self.spec.settings.least);
                if end.code != 0 && self.connections.saturating_sub(self.ended) + 1 == least {
                    let text = format!("ERROR: Minimum required connections ({least}) unavailable");
                    self.error(out, 200, text);
                }
            }
            _ => {}
        }
    }

    /// The server of a connection, at its control port.
    fn server_of(&self, report: &Report) -> String {
        let nth = usize::from(report.connection).checked_rem(self.hosts.len()).unwrap_or(0);
        self.hosts.get(nth).map_or_else(|| report.remote.to_string(), |host| host.at.to_string())
    }

    fn aggregate(&mut self, report: &Report, out: &mut Text) {
        for one in self.fold.on_report(report) {
            if self.is_text() && !self.spec.summary_only {
                self.interval(None, &one, out);
            }
        }
    }

    fn parameters(&self, n: u32, test: u16, p: &Activated, out: &mut Text) {
        let way = if p.upstream { "Upstream" } else { "Downstream" };
        let row = match (p.row, p.start) {
            (AUTOMATIC, _) => "<Auto>".to_owned(),
            (row, true) => format!("@{row}"),
            (row, false) => row.to_string(),
        };
        writeln!(
            out,
            "{}{way} Test Int(sec): {}, DelayVar Th(ms): {}-{} [{}], Trial Int(ms): {}, Ignore OoO/Dup: {}, Payload: {},\n  ID: \
             {test}, SR Index: {row}, Cong. Th: {}, HS Delta: {}, SeqErr Th: {}, Algo: {}, Conn: {}, DSCP+ECN: {}, CE Th: {}",
            self.prefix(n),
            p.test_s,
            p.low_ms,
            p.upper_ms,
            if p.one_way { "OWD" } else { "RTT" },
            p.trial_ms,
            if p.loss_only { "Enabled" } else { "Disabled" },
            if p.random { "random" } else { "zeroes" },
            p.bad_reports,
            p.fast_rows,
            p.sequence_errors,
            if p.algorithm == 1 { "C" } else { "B" },
            self.connections,
            p.traffic_class,
            p.ce_share
        );
    }

    /// Deliveries, losses and variations, as in a line of a sub-interval and in the summary.
    fn figures(&self, one: &Counted) -> String {
        let delivered = match self.spec.loss_ratio {
            false => format!("Delivered(%): {:6.2}", one.delivered()),
            true => format!("LossRatio: {}", exponent(one.share(one.lost))),
        };
        let marks = self.activated.as_ref().is_some_and(|p| p.ce_share > 0);
        let (label, marked) = if marks { ("/CE", format!("/{}", one.marked)) } else { ("", String::new()) };
        let (delay, trip) = (one.delay.triple(), one.round_trip.triple());
        format!(
            "{delivered}, Loss/OoO/Dup{label}: {}/{}/{}{marked}, OWDVar(ms): {}/{}/{}, RTTVar(ms): {}/{}/{}, Mbps(L3/IP): {:.2}",
            one.lost,
            one.reordered,
            one.duplicated,
            delay.0,
            delay.1,
            delay.2,
            trip.0,
            trip.1,
            trip.2,
            one.mbps[0]
        )
    }

    fn interval(&self, n: Option<u32>, one: &Counted, out: &mut Text) {
        let seconds = f64::from(one.end_ms) / 1_000.0;
        let (prefix, figures) = (self.prefix(n.unwrap_or(0)), self.figures(one));
        writeln!(out, "{prefix}Sub-Interval[{}](sec): {seconds:5.1}, {figures}", one.number);
    }

    /// The modes of the test: one, or with `-i` two.
    fn modes(&self) -> Vec<&[Counted]> {
        let all = &self.fold.finished[..];
        let first = usize::from(self.spec.settings.test.first_mode).min(all.len());
        let (one, two) = all.split_at(if first == 0 { all.len() } else { first });
        [one, two].into_iter().filter(|mode| !mode.is_empty()).collect()
    }

    /// True if connections go on, but fewer than the test needs.
    pub(super) fn is_short(&self) -> bool {
        let active = self.fold.active();
        self.ended > 0 && active > 0 && active < usize::from(self.spec.settings.least)
    }

    /// The end of the output, and the exit code.
    pub(super) fn finish(&mut self) -> (String, u8) {
        if self.spec.upstream.is_none() {
            return (String::new(), self.code);
        }
        let text = if self.is_text() { self.summary() } else { self.document() };
        (text, self.code)
    }

    fn summary(&self) -> String {
        let mut out = Text::default();
        let modes = self.modes();
        if !modes.is_empty() {
            let way = if self.spec.upstream == Some(true) { "Upstream" } else { "Downstream" };
            let prefix = self.prefix(0);
            let label = |mode: &[Counted], one: &str, several: &str| match (modes.len(), mode) {
                (1, _) | (_, []) => one.to_owned(),
                (_, [first, .., last]) => format!("{several}[{}-{}]", first.number, last.number),
                (_, [only]) => format!("{several}[{0}-{0}]", only.number),
            };
            for mode in &modes {
                let figures = self.figures(&Counted::sum(mode));
                writeln!(out, "{prefix}{way} {} {figures}", label(mode, "Summary", "Sum"));
            }
            let all = Counted::sum(&self.fold.finished);
            writeln!(
                out,
                "{prefix}{way} Minimum One-Way Delay(ms): {} [w/clock diff], Round-Trip Time(ms): {}, Active Connections: {}",
                all.delay_min_ms.unwrap_or(0),
                all.round_trip_min_ms.unwrap_or(0),
                all.active
            );
            for mode in &modes {
                let Some(best) = Counted::best(mode) else { continue };
                let [ip, ethernet, fcs, vlan] = best.mbps;
                writeln!(
                    out,
                    "{prefix}{way} {} Mbps(L3/IP): {ip:.2}, Mbps(L2/Eth): {ethernet:.2}, Mbps(L1/Eth): {fcs:.2}, \
                     Mbps(L1/Eth+VLAN): {vlan:.2}",
                    label(mode, "Maximum", "Max")
                );
            }
        }
        if self.spec.verbose {
            writeln!(out, "[0]End time reached");
        }
        out.0
    }

    /// The document.
    fn document(&self) -> String {
        let mut members = Vec::new();
        if self.spec.form != Form::Brief {
            members.extend([
                ("IPLayerMaxConnections", Json::whole(24)),
                ("IPLayerMaxIncrementalResult", Json::whole(36_000)),
                (
                    "IPLayerCapSupported",
                    Json::Object(vec![
                        ("SoftwareVersion", Json::text(VERSION)),
                        ("ControlProtocolVersion", Json::whole(20)),
                        ("Metrics", Json::text("IPLR,Sampled_RTT,IPDV,IPRR,RIPR")),
                    ]),
                ),
            ]);
        }
        if let (Some((test, local, remote)), Some(p)) = (self.first, &self.activated) {
            if self.spec.form != Form::Brief {
                members.push(("Input", self.input(test, local, remote, p)));
            }
            members.push(("Output", self.output(p)));
        }
        let [last, before] = &self.messages;
        members.extend([
            ("ErrorStatus", Json::whole(self.code)),
            ("ErrorMessage", Json::text(last.as_str())),
            ("ErrorMessage2", Json::text(before.as_str())),
        ]);
        let formatted = self.spec.form == Form::Formatted;
        Json::Object(members).print(formatted) + "\n"
    }

    fn input(&self, test: u16, local: SocketAddr, remote: SocketAddr, p: &Activated) -> Json {
        let flag = |set: bool| Json::whole(u8::from(set));
        let hosts = self.hosts.iter().map(|host| {
            Json::Object(vec![
                ("Host", Json::text(host.name.as_str())),
                ("HostIPAddress", Json::text(host.at.ip().to_canonical().to_string())),
                ("ControlPort", Json::whole(host.at.port())),
            ])
        });
        let name = self.hosts.first().map_or_else(String::new, |host| host.name.clone());
        let table = self.spec.settings.table();
        let v6 = remote.ip().to_canonical().is_ipv6();
        let fixed = p.row != AUTOMATIC && !p.start;
        let start = if p.row == AUTOMATIC { 0 } else { p.row };
        let family = match (self.spec.v4, self.spec.v6) {
            (true, false) => "IPv4",
            (false, true) => "IPv6",
            _ => "Any",
        };
        let subs = u32::from(p.test_s) * 1_000 / u32::from(p.sub_interval_ms.max(1));
        let connections = u32::try_from(self.connections).unwrap_or(u32::MAX);
        let bandwidth = self.spec.settings.bandwidth.saturating_mul(connections);
        Json::Object(vec![
            ("Interface", Json::text("")),
            ("Role", Json::text(if p.upstream { "Sender" } else { "Receiver" })),
            ("ID", Json::whole(test)),
            ("Host", Json::text(name)),
            ("HostIPAddress", Json::text(remote.ip().to_canonical().to_string())),
            ("Port", Json::whole(remote.port())),
            ("NumberOfHosts", Json::Number(self.hosts.len().to_string())),
            ("HostList", Json::Array(hosts.collect())),
            ("ClientIPAddress", Json::text(local.ip().to_canonical().to_string())),
            ("ClientPort", Json::whole(local.port())),
            ("JumboFramesPermitted", flag(self.spec.settings.test.jumbo)),
            ("NumberOfConnections", Json::whole(connections)),
            ("MinNumOfConnections", Json::whole(self.spec.settings.least)),
            ("DSCP", Json::whole(p.traffic_class >> 2)),
            ("ECN", Json::whole(p.traffic_class & 3)),
            ("CEThreshold", Json::whole(p.ce_share)),
            ("ProtocolVersion", Json::text(family)),
            ("UDPPayloadMin", Json::whole(if v6 { 32 } else { 52 })),
            ("UDPPayloadMax", Json::whole(table.longest())),
            ("UDPPayloadDefault", Json::whole(table.payload())),
            ("UDPPayloadContent", Json::text(if p.random { "random" } else { "zeroes" })),
            ("TestType", Json::text(if fixed { "Fixed" } else { "Search" })),
            ("IPDVEnable", flag(p.one_way)),
            ("IPRREnable", Json::whole(1)),
            ("RIPREnable", Json::whole(1)),
            ("PreambleDuration", Json::whole(0)),
            ("MaxRequiredBandwidth", Json::whole(bandwidth)),
            ("StartSendingRateIndex", Json::whole(start)),
            ("SendingRateIndex", if fixed { Json::whole(p.row) } else { Json::whole(-1) }),
            ("NumberTestSubIntervals", Json::whole(subs)),
            ("NumberFirstModeTestSubIntervals", Json::whole(self.spec.settings.test.first_mode)),
            ("NumberFirstModeSuppSubIntervals", Json::whole(p.suppressed)),
            ("TestSubInterval", Json::whole(p.sub_interval_ms)),
            ("StatusFeedbackInterval", Json::whole(p.trial_ms)),
            ("TimeoutNoTestTraffic", Json::whole(1_000)),
            ("TimeoutNoStatusMessage", Json::whole(1_000)),
            ("Tmax", Json::whole(1_000)),
            ("TmaxRTT", Json::whole(3_000)),
            ("TimestampResolution", Json::whole(1)),
            ("SeqErrThresh", Json::whole(p.sequence_errors)),
            ("ReordDupIgnoreEnable", flag(p.loss_only)),
            ("LowerThresh", Json::whole(p.low_ms)),
            ("UpperThresh", Json::whole(p.upper_ms)),
            ("HighSpeedDelta", Json::whole(p.fast_rows)),
            ("SlowAdjThresh", Json::whole(p.bad_reports)),
            ("HSpeedThresh", Json::whole(1_000_000_000)),
            ("RateAdjAlgorithm", Json::text(if p.algorithm == 1 { "C" } else { "B" })),
            ("InterfaceDeterminesMax", Json::whole(0)),
        ])
    }

    fn output(&self, p: &Activated) -> Json {
        let all = &self.fold.finished;
        let mut members = vec![
            ("BOMTime", time(self.begun.unwrap_or(Wall(0)))),
            ("TmaxUsed", Json::whole(1_000)),
            ("TestInterval", Json::whole(p.test_s)),
            ("TmaxRTTUsed", Json::whole(3_000)),
            ("TimestampResolutionUsed", Json::whole(1)),
        ];
        if !self.spec.summary_only {
            members.push(("IncrementalResult", Json::Array(all.iter().map(incremental).collect())));
        }
        let modes = self.modes();
        let of = |make: fn(usize, &[Counted]) -> Json| -> (Json, Json) {
            let mut each = modes.iter().enumerate().map(|(n, mode)| make(n + 1, mode));
            let first = each.next().unwrap_or(Json::Object(Vec::new()));
            (first, Json::Array(each.collect()))
        };
        let (summary, modal_summary) = of(summarised);
        let (at_max, modal) = of(at_maximum);
        members.extend([
            ("Summary", summary),
            ("ModalSummary", modal_summary),
            ("AtMax", at_max),
            ("ModalResult", modal),
            ("ECNBleachingDetected", Json::whole(u8::from(self.bleached))),
            ("EOMTime", time(self.last)),
            ("Status", Json::text(if self.code < 50 { "Complete" } else { "Error_Other" })),
        ]);
        Json::Object(members)
    }

    fn server(&mut self, report: &Report, out: &mut Text) {
        let id = format!("{}.{}", report.connection, report.test);
        let (local, remote) = (report.local, report.remote);
        let free = (2..).find(|n| !self.numbers.values().any(|used| used == n)).unwrap_or(2);
        match &report.news {
            News::SetupResponse { code } if *code != crate::codec::setup_code::ACCEPTED => {
                writeln!(out, "{}", refused(*code, &remote));
            }
            News::ActivationRequest => {
                self.numbers.entry(remote).or_insert(free);
            }
            _ => {}
        }
        let n = self.numbers.get(&remote).copied().unwrap_or(free);
        if self.spec.verbose {
            match &report.news {
                News::SetupRequest { version, bandwidth, key } => writeln!(
                    out,
                    "[1]Setup request ({id}, Ver: {version}, MaxBW: {bandwidth}, KeyID: {key}) received from {remote}"
                ),
                News::SetupResponse { .. } => {
                    writeln!(out, "[1]Setup response ({id}) sent from {local} to {remote}");
                }
                News::ActivationRequest => {
                    writeln!(out, "[{n}]Test activation request ({id}) received from {remote}");
                }
                News::ActivationResponse(_) => {
                    writeln!(out, "[{n}]Test activation response ({id}) sent from {local} to {remote}");
                }
                News::SubInterval(sub) if !self.spec.summary_only => {
                    self.interval(Some(n), &Counted::of(sub, report.at), out);
                }
                News::Warning(warning) => writeln!(out, "[{n}]{}", words(*warning).1),
                News::Stop => writeln!(out, "[{n}]Sending test stop"),
                News::End(_) => writeln!(out, "[{n}]End time reached"),
                _ => {}
            }
        }
        if matches!(report.news, News::End(_)) {
            self.numbers.remove(&remote);
        }
    }
}

/// A warning: its exit code, and its words.
fn words(warning: Warning) -> (u8, String) {
    match warning {
        Warning::ReportsLost(n) => {
            (2, format!("LOCAL WARNING: Incoming status feedback messages lost ({n})"))
        }
        Warning::ReportsLostThere(n) => {
            (3, format!("REMOTE WARNING: Incoming status feedback messages lost ({n})"))
        }
        Warning::LoadStopped => (4, "LOCAL WARNING: Incoming traffic has completely stopped".to_owned()),
        Warning::StoppedThere => (5, "REMOTE WARNING: Incoming traffic has completely stopped".to_owned()),
    }
}

/// Why a connection ended, in the original's words.
fn failure(code: u8, server: &str, begun: bool) -> String {
    match code {
        101 | 102 => format!("ERROR: Client version not supported by server {server}"),
        103 => format!("ERROR: Client jumbo datagram size option does not match server {server}"),
        104 => format!("ERROR: Authentication not configured on server {server}"),
        105 => format!("ERROR: Authentication required by server {server}"),
        106 => format!("ERROR: Authentication mode invalid for server {server}"),
        107 => format!("ERROR: Authentication failure of setup response from server {server}"),
        108 => format!("ERROR: Authentication time invalid in setup response from server {server}"),
        109 => format!("ERROR: Max bandwidth option required by server {server}"),
        110 => format!("ERROR: Required max bandwidth exceeds available capacity on server {server}"),
        111 => format!("ERROR: Client traditional MTU option does not match server {server}"),
        112 => format!("ERROR: Multi-connection parameters rejected by server {server}"),
        113 => format!("ERROR: No connections available on server {server}"),
        157 => format!("ERROR: Authentication failure of test activation response from server {server}"),
        158 => format!("ERROR: Authentication time invalid in test activation response from server {server}"),
        151.. => format!("ERROR: Test activation rejected by server {server}"),
        1 if begun => format!("WARNING: Timeout awaiting traffic from server {server}"),
        1 => format!("WARNING: Timeout awaiting response from server {server}"),
        code => format!("ERROR: Unexpected result {code} from server {server}"),
    }
}

/// Why a server refused a client, in the original's words.
fn refused(code: u8, client: &SocketAddr) -> String {
    let what = match code {
        2 => "Invalid version",
        3 => "Invalid jumbo datagram option",
        4 => "Unexpected authentication",
        5 => "Authentication missing",
        6 => "Invalid authentication mode",
        7 => return format!("ERROR: Authentication failure of setup request from {client}"),
        8 => "Authentication time invalid",
        9 => "Required bandwidth not specified",
        10 => "Capacity exceeded by required bandwidth",
        11 => "Invalid traditional MTU option",
        12 => "Invalid multi-connection parameters",
        _ => return format!("ERROR: No connection available for setup request from {client}"),
    };
    format!("ERROR: {what} in setup request from {client}")
}

/// `%.2E`.
fn exponent(value: f64) -> String {
    let text = format!("{value:.2E}");
    let (mantissa, power) = text.split_once('E').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    format!("{mantissa}E{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
}

fn time(at: Wall) -> Json {
    let text = jiff::Timestamp::from_microsecond(at.0.div_euclid(1_000))
        .map(|at| at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string());
    Json::text(text.unwrap_or_default())
}

/// Names of the members that differ by the object that they are in.
struct Names {
    loss: &'static str,
    reordered: &'static str,
    replicated: &'static str,
    delay_range: &'static str,
    trip_range: &'static str,
}

fn counts(one: &Counted, names: &Names) -> Vec<(&'static str, Json)> {
    let whole = |n: u64| Json::Number(n.to_string());
    let ratio = |part: u64| Json::fixed(one.share(part), 9);
    let marked = if one.datagrams == 0 { 0.0 } else { real(one.marked) * 100.0 / real(one.datagrams) };
    let ms = |n: u32| Json::seconds(n.into());
    let (delay, trip) = (one.delay.triple(), one.round_trip.triple());
    vec![
        ("ActiveConnections", Json::whole(one.active)),
        ("DeliveredPercent", Json::fixed(one.delivered(), 2)),
        (names.loss, ratio(one.lost)),
        (names.reordered, ratio(one.reordered)),
        (names.replicated, ratio(one.duplicated)),
        ("CEPercentOfDelivered", Json::fixed(marked, 2)),
        ("LossCount", whole(one.lost)),
        ("ReorderedCount", whole(one.reordered)),
        ("ReplicatedCount", whole(one.duplicated)),
        ("CECountOfDelivered", whole(one.marked)),
        ("PDVMin", ms(delay.0)),
        ("PDVAvg", ms(delay.1)),
        ("PDVMax", ms(delay.2)),
        (names.delay_range, ms(delay.2.saturating_sub(delay.0))),
        ("RTTMin", ms(trip.0)),
        ("RTTAvg", ms(trip.1)),
        ("RTTMax", ms(trip.2)),
        (names.trip_range, ms(trip.2.saturating_sub(trip.0))),
    ]
}

fn delay_min(one: &Counted) -> Json {
    Json::seconds(real(one.delay_min_ms.unwrap_or(0)))
}

fn incremental(one: &Counted) -> Json {
    let names = Names {
        loss: "LossRatio",
        reordered: "ReorderedRatio",
        replicated: "ReplicatedRatio",
        delay_range: "PDVRange",
        trip_range: "RTTRange",
    };
    let mut members = vec![
        ("Interval", Json::whole(one.number)),
        ("Seconds", Json::fixed(f64::from(one.end_ms) / 1_000.0, 1)),
        ("TimeOfSubInterval", time(one.at)),
    ];
    members.extend(counts(one, &names));
    members.extend([
        ("IPLayerCapacity", Json::fixed(one.mbps[0], 2)),
        ("InterfaceEthMbps", Json::fixed(0.0, 2)),
        ("MinOnewayDelay", delay_min(one)),
    ]);
    Json::Object(members)
}

fn summarised(mode: usize, all: &[Counted]) -> Json {
    let names = Names {
        loss: "LossRatioSummary",
        reordered: "ReorderedRatioSummary",
        replicated: "ReplicatedRatioSummary",
        delay_range: "PDVRangeSummary",
        trip_range: "RTTRangeSummary",
    };
    let sum = Counted::sum(all);
    let mut members =
        vec![("Mode", Json::Number(mode.to_string())), ("Intervals", Json::Number(all.len().to_string()))];
    members.extend(counts(&sum, &names));
    members.extend([
        ("IPLayerCapacitySummary", Json::fixed(sum.mbps[0], 2)),
        ("InterfaceEthMbps", Json::fixed(0.0, 2)),
        ("MinOnewayDelaySummary", delay_min(&sum)),
        ("MinRTTSummary", Json::seconds(sum.round_trip_min_ms.unwrap_or(0).into())),
    ]);
    Json::Object(members)
}

fn at_maximum(mode: usize, all: &[Counted]) -> Json {
    let names = Names {
        loss: "LossRatioAtMax",
        reordered: "ReorderedRatioAtMax",
        replicated: "ReplicatedRatioAtMax",
        delay_range: "PDVRangeAtMax",
        trip_range: "RTTRangeAtMax",
    };
    let Some(best) = Counted::best(all) else { return Json::Object(Vec::new()) };
    let mut members = vec![
        ("Mode", Json::Number(mode.to_string())),
        ("Intervals", Json::Number(all.len().to_string())),
        ("TimeOfMax", time(best.at)),
    ];
    members.extend(counts(best, &names));
    let [ip, ethernet, fcs, vlan] = best.mbps;
    members.extend([
        ("MaxIPLayerCapacity", Json::fixed(ip, 2)),
        ("InterfaceEthMbps", Json::fixed(0.0, 2)),
        ("MaxETHCapacityNoFCS", Json::fixed(ethernet, 2)),
        ("MaxETHCapacityWithFCS", Json::fixed(fcs, 2)),
        ("MaxETHCapacityWithFCSVLAN", Json::fixed(vlan, 2)),
        ("MinOnewayDelayAtMax", delay_min(best)),
    ]);
    Json::Object(members)
}

/// The table of rates, as `-S` prints it.
pub(super) fn rates(settings: &Settings) -> String {
    let mut out = Text::default();
    writeln!(out, "Sending Rate Table for IPv4 (Dual Transmitters, Referenced by Index)...");
    writeln!(out, "Index) TxInt(us) Payload Burst  + TxInt(us) Payload Burst   Add-On  = Mbps(L3/IP)");
    for n in 0..=common::capacity::LAST {
        let row = settings.table().row(n);
        let [one, two] = row.transmitters;
        let transmitter = |t: common::capacity::Transmitter| {
            let bytes = if t.burst > 0 { t.size.bytes } else { 0 };
            format!("{:8} {bytes:8} {:5}", t.interval_us, t.burst)
        };
        let (addon, sign) = match row.addon.random {
            true => (format!("52-{}", row.addon.bytes), '~'),
            false => (row.addon.bytes.to_string(), ' '),
        };
        let mbps = real(row.rate_bps()) / 1e6;
        writeln!(
            out,
            "{n:5}) {}  +{} {addon:>8} {sign}= {mbps:10.2}",
            transmitter(one),
            format_args!(" {}", transmitter(two))
        );
    }
    out.0
}

/// A saved run as the original would have printed it.
///
/// # Errors
/// When it is none of this protocol.
pub(super) fn saved(outcome: &Outcome, events: &[Event]) -> Result<String, String> {
    let phase = outcome.points.first().map(|point| &point.phase);
    let settings = phase.and_then(Settings::of);
    let (Some(phase), Some(settings)) = (phase, settings) else {
        return Err(format!("it has no test of {NAME}, which udpst would have made"));
    };
    let connections = u8::try_from(phase.connections).unwrap_or(u8::MAX);
    let spec = Spec {
        upstream: Some(phase.pattern == Pattern::Push),
        connections: Some((settings.least, connections)),
        settings,
        ..Spec::default()
    };
    let mut printer = Printer::new(&spec, &outcome.begin.version, Vec::new());
    let mut text = printer.banner();
    events.iter().for_each(|event| text.push_str(&printer.on_event(event).0));
    text.push_str(&printer.finish().0);
    Ok(text)
}
