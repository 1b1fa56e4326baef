//! Console output before a test: banner, remarks on the command line, settings, limits and
//! interfaces of this host.

use super::args::{LARGEST_DATAGRAM, Role, Spec};
use super::print::{Lines, Now, Printer, RULE};
use crate::Layout;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

/// The default buffer of a sender, bytes.
const DEFAULT_BUFFER: u64 = 131_072;

/// Facts about this host that `-V` prints.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostFacts {
    /// Limit of open files: soft, hard.
    pub(crate) files: Option<(u64, u64)>,
    pub(crate) addresses: Vec<(String, IpAddr)>,
}

/// Remarks that the original prints on a command line.
fn remarks(spec: &Spec) -> Vec<&'static str> {
    let sends = spec.role == Role::Sender;
    let (limited, paced) = (sends && spec.limit.is_some(), sends && spec.fq_limit.is_some());
    let too_big = spec.layout.udp && spec.buffer.unwrap_or(DEFAULT_BUFFER) > LARGEST_DATAGRAM;
    let endless = spec.layout.seconds == 0;
    [
        (!spec.role_given, "no role specified. use receiver role"),
        (limited, "Warning! '-B' is specified and the network bandwidth may be limited"),
        (paced, "Warning! '--fq-rate-limit' is specified and the network bandwidth may be limited"),
        (limited && paced, "ignore '--fq-rate-limit' as '-B' is specified"),
        (too_big, "the UDP send size is too big. use the max value"),
        (endless, "running test in continuous mode. please monitor throughput by other tools"),
    ]
    .into_iter()
    .filter_map(|(said, text)| said.then_some(text))
    .collect()
}

impl Printer {
    /// The banner, the remarks and, with `-V`, the settings. The `-O` file has none of these.
    pub(crate) fn banner(&self, now: &Now) -> String {
        let (spec, mut out) = (&self.spec, Lines::at(now));
        if spec.windows {
            out.line("Copyright Version 5.33");
            return out.text;
        }
        out.line("NTTTCP for Linux 1.4.3");
        out.line(RULE);
        remarks(spec).into_iter().for_each(|text| out.info(text));
        if spec.verbose {
            self.settings(&mut out);
        }
        out.text
    }

    /// The limits, the interfaces, the threads and, at a receiver, the listening addresses.
    pub(crate) fn opening(&self, facts: &HostFacts, listening: &[SocketAddr], now: &Now) -> String {
        let (spec, sends, mut out) = (&self.spec, self.sends(), Lines::at(now));
        if spec.windows {
            return String::new();
        }
        if let Some((soft, hard)) = facts.files.filter(|_| spec.verbose) {
            out.debug(format_args!(
                "user limits for maximum number of open files: soft: {soft}; hard: {hard}"
            ));
        }
        // A synchronised sender prints its threads after the negotiation.
        if sends && !spec.layout.sync {
            out.info("Starting sender activity (no sync) ...");
            self.threads(&mut out);
        } else if !sends {
            self.interfaces(facts, listening, &mut out);
            self.threads(&mut out);
            let (talk, data): (Vec<&SocketAddr>, Vec<&SocketAddr>) =
                listening.iter().partition(|at| spec.layout.talks(at.port()));
            // The original listens on the synchronisation port only over UDP.
            let data = data.into_iter().filter(|_| !spec.layout.udp);
            for at in data.chain(talk).filter(|_| spec.verbose) {
                let (ip, port) = (at.ip().to_canonical(), at.port());
                out.debug(format_args!("ntttcp server is listening on {ip}:{port}"));
            }
        }
        out.text
    }

    /// Lists the addresses of the family when the receiver is bound to one.
    fn interfaces(&self, facts: &HostFacts, listening: &[SocketAddr], out: &mut Lines<'_>) {
        let bound = |ip: &IpAddr| self.spec.verbose && !ip.is_unspecified();
        let Some(own) = listening.first().map(SocketAddr::ip).filter(bound) else { return };
        for (name, ip) in facts.addresses.iter().filter(|(_, ip)| ip.is_ipv4() == own.is_ipv4()) {
            out.debug(format_args!("Interface:[{name}]\tAddress: {ip}"));
        }
    }

    /// Prints the number of threads that the original would create.
    pub(super) fn threads(&self, out: &mut Lines<'_>) {
        let ports = u32::from(self.spec.layout.ports);
        let threads = match self.spec.role {
            Role::Sender => ports * self.spec.layout.threads,
            Role::Receiver => ports + u32::from(self.spec.layout.sync),
        };
        out.info(format_args!("{threads} threads created"));
    }

    /// Prints the settings, each where it applies.
    fn settings(&self, out: &mut Lines<'_>) {
        let (spec, layout, sends) = (&self.spec, &self.spec.layout, self.sends());
        let some = |value: &dyn Display| Some(value.to_string());
        let only = |applies: bool, value: &dyn Display| applies.then(|| value.to_string());
        let yes_no = |on: bool| some(&if on { "yes" } else { "no" });
        let seconds = |s: u32, none: &str| if s == 0 { some(&none) } else { some(&s) };
        let (who, multi) = match sends {
            true => ("sender", "last client:\t\t\t"),
            false => ("receiver", "multiple clients:\t\t"),
        };
        let Layout { ports, threads, connections, .. } = layout;
        let any = if spec.v6 { "::" } else { "0.0.0.0" };
        let address = spec.address.as_deref().unwrap_or(any);
        let local = spec.local.as_ref().map_or_else(|| any.to_owned(), ToString::to_string);
        // -B overrides it.
        let fq_limit = spec.fq_limit.filter(|_| sends && spec.limit.is_none());
        let buffer = format!("{who} socket buffer (bytes):\t");
        for (label, value) in [
            ("***", only(true, &format_args!("{who} role"))),
            ("***", only(spec.hold, &"hold receiver always running")),
            (multi, only(layout.multi, &"yes")),
            ("***", only(!layout.sync, &"no sender/receiver synch")),
            ("connections:\t\t\t", only(sends, &format_args!("{ports} X {threads} X {connections}"))),
            ("ports:\t\t\t\t", only(!sends, ports)),
            ("cpu affinity:\t\t\t", some(&"*")),
            ("server address:\t\t\t", some(&address)),
            ("client address:\t\t\t", only(sends, &local)),
            ("domain:\t\t\t\t", some(&if spec.v6 || address.contains(':') { "IPv6" } else { "IPv4" })),
            ("protocol:\t\t\t", some(&if layout.udp { "UDP" } else { "TCP" })),
            ("server port starting at:\t", some(&layout.port)),
            ("client source port starting at:\t", spec.local_port.filter(|_| sends).and_then(|n| some(&n))),
            (&buffer, some(&spec.phase().buffer.high)),
            ("bandwidth limit (bits/sec):\t", spec.limit.filter(|_| sends).and_then(|n| some(&n))),
            ("fq rate limit (bits/sec):\t", fq_limit.and_then(|n| some(&n))),
            ("tcp nodelay:\t", yes_no(spec.nodelay)),
            ("test warm-up (sec):\t\t", seconds(layout.warmup_s, "no")),
            ("test duration (sec):\t\t", seconds(layout.seconds, "continuous")),
            ("test cool-down (sec):\t\t", seconds(layout.cooldown_s, "no")),
            ("show system tcp retransmit:\t", yes_no(spec.retransmits)),
            ("show packets for:\t\t", spec.nic.clone()),
            ("show device interrupts for:\t", spec.interrupts.clone()),
            ("capture console output to::\t", spec.log.clone()),
            ("save output to xml file::\t", spec.xml.clone()),
            ("save output to json file::\t", spec.json.clone()),
            ("quiet mode:\t\t\t", some(&if spec.quiet { "enabled" } else { "disabled" })),
            ("verbose mode:\t\t\t", some(&"enabled")),
        ] {
            if let Some(value) = value {
                out.line(format_args!("{label} {value}"));
            }
        }
        out.line(RULE);
    }
}
