//! Console output before a test: banner, remarks on the command line, settings, limits and interfaces of this host.

use super::args::{Role, Spec};
use super::print::{Printer, RULE};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

/// Largest UDP payload, and the default buffer of a sender, bytes.
const LARGEST_DATAGRAM: u64 = 65_507;
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
    [
        (!spec.role_given, "no role specified. use receiver role"),
        (limited, "Warning! '-B' is specified and the network bandwidth may be limited"),
        (paced, "Warning! '--fq-rate-limit' is specified and the network bandwidth may be limited"),
        (limited && paced, "ignore '--fq-rate-limit' as '-B' is specified"),
        (
            spec.layout.udp && spec.buffer.unwrap_or(DEFAULT_BUFFER) > LARGEST_DATAGRAM,
            "the UDP send size is too big. use the max value",
        ),
        (
            spec.layout.seconds == 0,
            "running test in continuous mode. please monitor throughput by other tools",
        ),
    ]
    .into_iter()
    .filter_map(|(said, text)| said.then_some(text))
    .collect()
}

impl Printer {
    /// Prints the banner, the remarks and, with `-V`, the settings. The `-O` file has none of these.
    pub(crate) fn banner(&self, day: &str, out: &mut dyn Write) -> io::Result<()> {
        let spec = &self.spec;
        if spec.windows {
            writeln!(out, "Copyright Version 5.33")?;
            return out.flush();
        }
        writeln!(out, "NTTTCP for Linux 1.4.3")?;
        writeln!(out, "{RULE}")?;
        for text in remarks(spec) {
            writeln!(out, "{day} INFO: {text}")?;
        }
        if spec.verbose {
            self.settings(out)?;
        }
        out.flush()
    }

    /// Prints the limits, the interfaces, the threads and, at a receiver, the listening addresses.
    pub(crate) fn opening(
        &self,
        facts: &HostFacts,
        listening: &[SocketAddr],
        day: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (spec, sends) = (&self.spec, self.sends());
        if spec.windows {
            return Ok(());
        }
        if let Some((soft, hard)) = facts.files.filter(|_| spec.verbose) {
            writeln!(
                out,
                "{day} DBG : user limits for maximum number of open files: soft: {soft}; hard: {hard}"
            )?;
        }
        // A synchronised sender prints its threads after the negotiation.
        if sends && !spec.layout.sync {
            writeln!(out, "{day} INFO: Starting sender activity (no sync) ...")?;
            self.threads(day, out)?;
        } else if !sends {
            self.interfaces(facts, listening, day, out)?;
            self.threads(day, out)?;
            let (talk, data): (Vec<&SocketAddr>, Vec<&SocketAddr>) =
                listening.iter().partition(|at| spec.layout.talks(at.port()));
            // The original listens on the synchronisation port only over UDP.
            let data = data.into_iter().filter(|_| !spec.layout.udp);
            for at in data.chain(talk).filter(|_| spec.verbose) {
                writeln!(
                    out,
                    "{day} DBG : ntttcp server is listening on {}:{}",
                    at.ip().to_canonical(),
                    at.port()
                )?;
            }
        }
        out.flush()
    }

    /// Lists the addresses of the family when the receiver is bound to one.
    fn interfaces(
        &self,
        facts: &HostFacts,
        listening: &[SocketAddr],
        day: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let own =
            listening.first().map(SocketAddr::ip).filter(|ip| self.spec.verbose && !ip.is_unspecified());
        let Some(own) = own else { return Ok(()) };
        for (name, ip) in facts.addresses.iter().filter(|(_, ip)| ip.is_ipv4() == own.is_ipv4()) {
            writeln!(out, "{day} DBG : Interface:[{name}]\tAddress: {ip}")?;
        }
        Ok(())
    }

    /// Prints the number of threads that the original would create.
    pub(super) fn threads(&self, day: &str, out: &mut dyn Write) -> io::Result<()> {
        let ports = u32::from(self.spec.layout.ports);
        let threads = match self.spec.role {
            Role::Sender => ports * self.spec.layout.threads,
            Role::Receiver => ports + u32::from(self.spec.layout.sync),
        };
        writeln!(out, "{day} INFO: {threads} threads created")
    }

    fn settings(&self, out: &mut dyn Write) -> io::Result<()> {
        let (spec, sends) = (&self.spec, self.sends());
        let or_no = |s: u32| if s == 0 { "no".to_owned() } else { s.to_string() };
        writeln!(out, "*** {} role", if sends { "sender" } else { "receiver" })?;
        if spec.hold {
            writeln!(out, "*** hold receiver always running")?;
        }
        if spec.layout.multi {
            let what = if sends { "last client:\t\t\t" } else { "multiple clients:\t\t" };
            writeln!(out, "{what} yes")?;
        }
        if !spec.layout.sync {
            writeln!(out, "*** no sender/receiver synch")?;
        }
        if sends {
            let crate::Layout { ports, threads, connections, .. } = spec.layout;
            writeln!(out, "connections:\t\t\t {ports} X {threads} X {connections}")?;
        } else {
            writeln!(out, "ports:\t\t\t\t {}", spec.layout.ports)?;
        }
        let any = if spec.v6 { "::" } else { "0.0.0.0" };
        writeln!(out, "cpu affinity:\t\t\t *")?;
        writeln!(out, "server address:\t\t\t {}", spec.address.as_deref().unwrap_or(any))?;
        if sends {
            let local = spec.local.map_or_else(|| any.to_owned(), |local| local.to_string());
            writeln!(out, "client address:\t\t\t {local}")?;
        }
        let v6 = spec.v6 || spec.address.as_deref().is_some_and(|address| address.contains(':'));
        writeln!(out, "domain:\t\t\t\t {}", if v6 { "IPv6" } else { "IPv4" })?;
        writeln!(out, "protocol:\t\t\t {}", if spec.layout.udp { "UDP" } else { "TCP" })?;
        writeln!(out, "server port starting at:\t {}", spec.layout.port)?;
        if let Some(first) = spec.local_port.filter(|_| sends) {
            writeln!(out, "client source port starting at:\t {first}")?;
        }
        let who = if sends { "sender" } else { "receiver" };
        writeln!(out, "{who} socket buffer (bytes):\t {}", spec.phase().buffer.high)?;
        if let Some(limit) = spec.limit.filter(|_| sends) {
            writeln!(out, "bandwidth limit (bits/sec):\t {limit}")?;
        }
        // -B overrides it.
        if let Some(limit) = spec.fq_limit.filter(|_| sends && spec.limit.is_none()) {
            writeln!(out, "fq rate limit (bits/sec):\t {limit}")?;
        }
        writeln!(out, "tcp nodelay:\t {}", if spec.nodelay { "yes" } else { "no" })?;
        writeln!(out, "test warm-up (sec):\t\t {}", or_no(spec.layout.warmup_s))?;
        let seconds =
            if spec.layout.seconds == 0 { "continuous".to_owned() } else { spec.layout.seconds.to_string() };
        writeln!(out, "test duration (sec):\t\t {seconds}")?;
        writeln!(out, "test cool-down (sec):\t\t {}", or_no(spec.layout.cooldown_s))?;
        writeln!(out, "show system tcp retransmit:\t {}", if spec.retransmits { "yes" } else { "no" })?;
        if let Some(nic) = &spec.nic {
            writeln!(out, "show packets for:\t\t {nic}")?;
        }
        if let Some(device) = &spec.interrupts {
            writeln!(out, "show device interrupts for:\t {device}")?;
        }
        for (what, file) in [
            ("capture console output to:", &spec.log),
            ("save output to xml file:", &spec.xml),
            ("save output to json file:", &spec.json),
        ] {
            if let Some(file) = file {
                writeln!(out, "{what}:\t {file}")?;
            }
        }
        writeln!(out, "quiet mode:\t\t\t {}", if spec.quiet { "enabled" } else { "disabled" })?;
        writeln!(out, "verbose mode:\t\t\t enabled")?;
        writeln!(out, "{RULE}")
    }
}
