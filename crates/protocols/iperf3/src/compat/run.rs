//! `netcaliper iperf3`: from its understood command line to a run.

use super::{
    DiskFile, Facts, HELP, JsonReport, Output, Prefix, Report, RunRole, ServerReport, Spec, Style, program,
    read,
};
use crate::auth::{self, Authenticator, Users};
use crate::client::{BEGIN_OF_ORIGINAL, RESULTS_OF_ORIGINAL};
use crate::judge::{Judge, on_a_thread};
use crate::server::Limits;
use crate::{Bulk, BulkNews, BulkTerms, ServerOutput, file};
use crate::{ClientOptions, Credentials, ServerOptions};
use common::original::{Driver, ExitCodes, NO_EFFECT, Refusal, Run};
use common::{ClientConfig, Placement, ProtocolOptions, ServerConfig};
use compat::Request;
use metrics::{SECOND, real};
use model::{Begin, Phase, Range, SocketSettings, Status, Verify};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Any error, as the original has it.
const CODES: ExitCodes = ExitCodes { usage: 1, failed: 1 };

/// The original's error at a signal.
const INTERRUPTED: &str = "interrupt - the client has terminated";

/// Why there is no run: one sentence.
fn refused(text: impl Into<String>) -> Refusal {
    Refusal::Failed(text.into())
}

pub(super) fn run(arguments: &[String], driver: &Driver) -> u8 {
    let done = match read(arguments) {
        Ok(Request::Help) => driver.page(HELP, 0),
        Ok(Request::Version) => driver.page(&format!("iperf 3.21 (netcaliper {})\n", driver.version), 0),
        Ok(Request::Run(spec)) => start(&spec, driver),
        Err(text) => {
            let text = format!("parameter error - {text}");
            // The original prints its usage instead; a reader of JSON has a document here, too.
            let spec = Spec { output: output_of(arguments), ..Spec::default() };
            if spec.output != Output::Text {
                driver.print(&failure(&spec, driver, &text));
            }
            Err(refused(text))
        }
    };
    driver.ended("iperf3", CODES, done)
}

/// The output that a command line with a mistake asks for.
fn output_of(arguments: &[String]) -> Output {
    let given = |name: &str| arguments.iter().any(|word| word == name);
    let letter = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('J');
    match given("--json") || arguments.iter().any(letter) {
        true => Output::Json,
        false if given("--json-stream") => Output::Stream,
        false => Output::Text,
    }
}

fn start(spec: &Spec, driver: &Driver) -> Result<u8, Refusal> {
    driver.warn("iperf3", NO_EFFECT, &spec.ignored);
    // Opened before anything can fail: whatever fails is reported there.
    let mut printout = Printout::new(spec, driver)?;
    let done = match &spec.role {
        RunRole::Server => serve(spec, &mut printout),
        RunRole::Client(host) => client(spec, host, &mut printout),
    };
    let (text, code) = match done {
        Err(Refusal::Usage(text)) => (format!("parameter error - {text}"), CODES.failed),
        Err(Refusal::Failed(text)) => (text, CODES.failed),
        // As of a run: a signal is how users end one.
        Err(Refusal::Interrupted(_)) => (INTERRUPTED.to_owned(), 0),
        Ok(code) => return Ok(code),
    };
    if spec.output == Output::Text && spec.logfile.is_none() {
        driver.say(format_args!("iperf3: {text}"));
        return Ok(code);
    }
    printout.print(&match spec.output {
        Output::Text => format!("iperf3: {text}\n"),
        _ => failure(spec, driver, &text),
    });
    Ok(code)
}

/// The document of a test that failed before anything was known of it.
fn failure(spec: &Spec, driver: &Driver, error: &str) -> String {
    let host = (driver.begin)(&driver.client(&crate::PROTOCOL), "iperf3", Vec::new(), &Phase::default());
    let mut report = TestReport::new(spec, facts(spec, driver, &host, None));
    report.on_event(&BulkNews::Failed { error: error.to_owned() }) + &report.finish(None)
}

/// Output of the report: stdout or the log file.
struct Printout<'a> {
    driver: &'a Driver,
    out: Box<dyn Write>,
    /// Prefix of every line of text; JSON has none.
    prefix: Prefix,
}

impl Printout<'_> {
    fn new<'a>(spec: &Spec, driver: &'a Driver) -> Result<Printout<'a>, Refusal> {
        let out = match &spec.logfile {
            None => (driver.stdout)(),
            Some(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                let wrong = |error| refused(format!("unable to open log file {path}: {error}"));
                Box::new(file.map_err(wrong)?)
            }
        };
        let prefix = match spec.output {
            Output::Text => Prefix::new(spec.timestamps.clone(), spec.terms.title.clone()),
            _ => Prefix::new(None, None),
        };
        Ok(Printout { driver, out, prefix })
    }

    fn print(&mut self, text: &str) {
        let text = self.prefix.mark(text, self.driver.host.wall());
        // With a closed stdout a server goes on, and a client's exit code has the result.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

/// Facts about the host and the options for JSON documents.
fn facts(spec: &Spec, driver: &Driver, begin: &Begin, call: Option<(String, SocketAddr)>) -> Facts {
    let host = &begin.host;
    // The second of three numbers is the initial size.
    let default = |name: &str| {
        let text = host.sysctl.get(name).map(String::as_str).unwrap_or_default();
        text.split_whitespace().nth(1).or(text.split_whitespace().next()).and_then(|n| n.parse().ok())
    };
    let names = if spec.terms.udp {
        ["net.core.wmem_default", "net.core.rmem_default"]
    } else {
        ["net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem"]
    };
    let mtu = host.nic.as_ref().map_or(1_500, |nic| nic.mtu);
    // Headers of IP and TCP, and TCP's time stamps.
    let headers = if call.as_ref().is_some_and(|(_, to)| to.is_ipv6()) { 72 } else { 52 };
    Facts {
        version: format!("iperf 3.21 (netcaliper {})", driver.version),
        system_info: format!("{} {}", host.kernel, host.name),
        connecting_to: call.map(|(host, to)| (host, to.port())),
        asked: spec.terms.clone(),
        buffers: (default(names[0]).unwrap_or(0), default(names[1]).unwrap_or(0)),
        mss: mtu.saturating_sub(headers).min(32_768),
        mtu,
        interval_s: real(spec.interval_ns) / 1e9,
        file: spec.file.as_ref().map(|name| DiskFile {
            name: name.clone(),
            size: std::fs::metadata(name).ok().map(|of| of.len()),
        }),
    }
}

/// The report of a test, in whichever form it was asked for.
struct TestReport {
    output: Output,
    text: Report,
    json: JsonReport,
}

impl TestReport {
    fn new(spec: &Spec, facts: Facts) -> Self {
        let keeps = spec.output != Output::Stream;
        let text = Report::new(style(spec), facts.clone());
        TestReport { output: spec.output, text, json: JsonReport::new(facts, keeps) }
    }

    fn on_event(&mut self, news: &BulkNews) -> String {
        match self.output {
            Output::Text => self.text.on_event(news),
            Output::Json => {
                self.json.on_event(news);
                String::new()
            }
            Output::Stream | Output::StreamAndAll => {
                self.json.on_event(news).iter().map(|value| format!("{value}\n")).collect()
            }
        }
    }

    /// The last part of the printout; `error` is reported unless another was.
    fn finish(&mut self, error: Option<&str>) -> String {
        let lines = match (self.output, error) {
            (Output::Stream | Output::StreamAndAll, Some(error)) if self.json.is_open() => {
                self.on_event(&BulkNews::Failed { error: error.to_owned() })
            }
            _ => String::new(),
        };
        if let Some(error) = error {
            self.json.fail(error);
        }
        let document = match self.output {
            Output::Text | Output::Stream => String::new(),
            // Indented, as the original does.
            Output::Json | Output::StreamAndAll => format!("{:#}\n", self.json.document()),
        };
        lines + &document
    }
}

fn placement(spec: &Spec) -> Placement {
    spec.affinity.map_or(Placement::Spread, |core| Placement::Cores(vec![core]))
}

fn style(spec: &Spec) -> Style {
    Style { format: spec.format, verbose: spec.verbose, intervals: spec.interval_ns > 0 }
}

/// The text of a file that an option names.
fn text_of(option: &str, path: &str) -> Result<String, Refusal> {
    std::fs::read_to_string(path)
        .map_err(|error| refused(format!("parameter error - {option} {path}: {error}")))
}

/// The judge of clients' tokens, if keys were given.
fn judge(spec: &Spec, driver: &Driver) -> Result<Option<Judge>, Refusal> {
    let (Some(key), Some(users)) = &spec.keys else { return Ok(None) };
    auth::available().map_err(|why| refused(format!("parameter error - {why}")))?;
    let pem = text_of("--rsa-private-key-path", key)?;
    text_of("--authorized-users-path", users)?;
    // The file is read again for each client, also after `--daemon` has changed the working
    // directory.
    let path = std::path::absolute(users).unwrap_or_else(|_| users.into());
    let users: Users = Arc::new(move || std::fs::read_to_string(&path).ok());
    let authenticator = Authenticator::new(&pem, users, spec.skew_s, spec.pkcs1, driver.host.random())
        .map_err(|why| refused(format!("parameter error - --rsa-private-key-path {key}: {why}")))?;
    Ok(Some(on_a_thread(move |token, came| authenticator.admits(token, came))))
}

/// The client's credentials, if a name was given. The password is in the environment, or is asked
/// for.
fn credentials(spec: &Spec, driver: &Driver) -> Result<Option<Credentials>, Refusal> {
    let (Some(user), Some(key)) = &spec.user else { return Ok(None) };
    auth::available().map_err(|why| refused(format!("parameter error - {why}")))?;
    let pem = text_of("--rsa-public-key-path", key)?;
    let password = match std::env::var("IPERF3_PASSWORD") {
        Ok(password) => password,
        Err(_) => {
            let read = (driver.read_hidden)("Password: ");
            driver.say("");
            read.map_err(|error| refused(format!("parameter error - no password: {error}")))?
        }
    };
    Ok(Some(Credentials { user: user.clone(), password, key: pem, pkcs1: spec.pkcs1 }))
}

/// The file with this process's identifier, gone when it ends.
struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Checks that the file can be written: once in the background, nobody reads a refusal.
    fn check(path: Option<&Path>) -> Result<(), Refusal> {
        let Some(path) = path else { return Ok(()) };
        let at = path.display();
        let before = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u32>().ok());
        if let Some(pid) = before.filter(|pid| Path::new("/proc").join(pid.to_string()).exists()) {
            return Err(refused(format!("error - {at} is that of process {pid}, which is running")));
        }
        let opened = OpenOptions::new().create(true).append(true).open(path);
        opened.map(drop).map_err(|error| unwritten(path, &error))
    }

    fn new(path: Option<PathBuf>) -> Result<PidFile, Refusal> {
        PidFile::check(path.as_deref())?;
        if let Some(path) = &path {
            let text = format!("{}\n", std::process::id());
            std::fs::write(path, text).map_err(|error| unwritten(path, &error))?;
        }
        Ok(PidFile(path))
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Refusal {
    refused(format!("error - unable to write the pid file {}: {error}", path.display()))
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The file may have been removed already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The absolute path of a file: `--daemon` changes the working directory.
fn whole(path: Option<&String>) -> Option<PathBuf> {
    path.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()))
}

fn serve(spec: &Spec, printout: &mut Printout<'_>) -> Result<u8, Refusal> {
    let driver = printout.driver;
    if spec.idle_s.is_some() && !spec.one_off {
        driver.say(format_args!(
            "iperf3: --idle-timeout without -1 changes nothing: this server never needs to start again"
        ));
    }
    let pidfile = whole(spec.pidfile.as_ref());
    let any = if spec.family.0 { IpAddr::from([0u8; 4]) } else { IpAddr::from(Ipv6Addr::UNSPECIFIED) };
    let mut listen = bound_to(spec.bind.unwrap_or(any), spec, driver)?;
    listen.set_port(spec.port);
    let config = ServerConfig {
        listen: vec![listen],
        exit_after: spec.one_off.then_some(1),
        open_to: (driver.open_to)(&[])?,
        interval_ns: spec.interval_ns,
        device: spec.device.clone(),
        placement: placement(spec),
        version: driver.version.to_owned(),
        options: ProtocolOptions::new(ServerOptions {
            file: spec.file.as_ref().map(|path| file::opening(path.as_ref())),
            user_timeout_ns: spec.user_timeout_ns,
            limits: spec.limits.clone(),
            // Otherwise the original only starts again, which helps where it has got stuck.
            idle_ns: spec.idle_s.filter(|_| spec.one_off).map(|s| u64::from(s) * SECOND),
            judge: judge(spec, driver)?,
            silent: spec.interval_ns == 0,
            render: Some(super::server_output),
        }),
        ..ServerConfig::new(&crate::PROTOCOL)
    };
    let bound = driver.bind(config).map_err(|error| {
        error.as_failure().map(|text| format!("error - unable to start listener for connections: {text}"))
    })?;
    PidFile::check(pidfile.as_deref())?;
    if spec.daemon {
        (driver.to_background)()
            .map_err(|error| refused(format!("error - unable to become a daemon: {error}")))?;
    }
    let _pidfile = PidFile::new(pidfile)?;
    let interrupt = (driver.on_signals)()?;
    let facts = facts(spec, driver, &bound.begin, None);
    let phase = Phase { duration_ns: None, interval_ns: spec.interval_ns, ..Phase::default() };
    let mut run = Run::new(driver, "iperf3:");
    let port = bound.port().unwrap_or(spec.port);
    let mut server_report = ServerReport::new(style(spec), facts.clone(), port, spec.one_off);
    let mut tests: BTreeMap<u64, TestReport> = BTreeMap::new();
    if spec.output == Output::Text {
        if spec.verbose {
            printout.print(&program(&facts));
        }
        printout.print(&server_report.banner());
    } else {
        driver.say(format_args!("iperf3: Server listening on {port}"));
    }
    bound.serve(&phase, &interrupt, &mut |event| {
        run.on_event(event);
        let Some(bulk) = Bulk::of(event) else { return };
        if spec.output == Output::Text {
            return printout.print(&server_report.on_event(&bulk));
        }
        let report = tests.entry(bulk.test).or_insert_with(|| TestReport::new(spec, facts.clone()));
        printout.print(&report.on_event(&bulk.news));
        if matches!(bulk.news, BulkNews::Ended(_) | BulkNews::Failed { .. }) {
            printout.print(&report.finish(None));
            tests.remove(&bulk.test);
        }
    })?;
    run.finish();
    Ok(0)
}

fn client(spec: &Spec, host: &str, printout: &mut Printout<'_>) -> Result<u8, Refusal> {
    let driver = printout.driver;
    let _pidfile = PidFile::new(whole(spec.pidfile.as_ref()))?;
    let mut terms = spec.terms.clone();
    if !spec.length_given {
        // 0 stands for the payload of a packet with UDP, 128 KiB with TCP.
        terms.block = 0;
    }
    terms.version = format!("3.21 (netcaliper {})", driver.version);
    let unlimited = (terms.rate, terms.bytes, terms.blocks) == (0, 0, 0);
    let free = !spec.length_given && !terms.udp && unlimited && spec.file.is_none();
    let phase = Phase {
        pattern: terms.pattern(),
        connections: terms.streams,
        verify: Verify::None,
        duration_ns: None,
        connect_timeout_ns: spec.connect_timeout_ns.unwrap_or(130 * SECOND),
        buffer: Range::just(1 << 20),
        sockets: SocketSettings { whole_segments: free, ..SocketSettings::default() },
        ..Phase::default()
    };
    let config = caller(spec, driver, host, terms)?;
    (driver.check)(&config, &phase)?;
    check_sockets(spec, driver, &config, &phase)?;
    let interrupt = (driver.on_signals)()?;
    let begin = (driver.begin)(&config, "iperf3", driver.command.clone(), &phase);
    let facts = facts(spec, driver, &begin, config.peers.first().map(|peer| (host.to_owned(), peer.address)));
    if spec.output == Output::Text && spec.verbose {
        printout.print(&program(&facts));
    }
    let mut report = TestReport::new(spec, facts);
    let (mut run, mut error) = (Run::new(driver, ""), None);
    driver.call(&config, &phase, &interrupt, "iperf3", &mut |event| {
        run.on_event(event);
        if let Some(Bulk { mut news, .. }) = Bulk::of(event) {
            match &news {
                BulkNews::Ended(ended) => error.clone_from(&ended.error),
                BulkNews::Failed { error: why } => error = Some(why.clone()),
                _ => {}
            }
            if spec.output == Output::Text {
                quote(&mut news, |line| (driver.quoted)(line, spec.logfile.is_none()));
            }
            printout.print(&report.on_event(&news));
        }
    })?;
    // A signal ends it well, as the original since 3.19. To the original a test of which nothing
    // arrived is a good one.
    let (why, code) = match (run.status, error) {
        (Status::Interrupted, _) => (Some(INTERRUPTED.to_owned()), 0),
        (_, Some(error)) => (Some(format!("error - {error}")), CODES.failed),
        (_, None) => (None, 0),
    };
    printout.print(&report.finish(why.as_deref()));
    if why.is_none() && spec.output == Output::Text {
        printout.print("\niperf Done.\n");
    }
    match &why {
        Some(why) if spec.output == Output::Text => driver.say(format_args!("iperf3: {why}")),
        // JSON documents have it.
        Some(_) => {}
        None => run.reason.iter().for_each(|why| driver.say(format_args!("iperf3: warning: {why}"))),
    }
    run.finish();
    Ok(code)
}

/// Tries the options of streams' sockets, so that a refusal names the one that causes it.
fn check_sockets(spec: &Spec, driver: &Driver, config: &ClientConfig, phase: &Phase) -> Result<(), Refusal> {
    let terms = &spec.terms;
    let congestion = terms.congestion.as_ref().map(|name| {
        (format!("-C {name}"), SocketSettings { congestion: Some(name.clone()), ..phase.sockets.clone() })
    });
    let mss = (terms.mss > 0).then(|| {
        (format!("-M {}", terms.mss), SocketSettings { mss: Some(terms.mss), ..phase.sockets.clone() })
    });
    let label = (terms.flow_label > 0).then(|| {
        let sockets = SocketSettings { flow_label: Some(terms.flow_label), ..phase.sockets.clone() };
        (format!("-L {}", terms.flow_label), sockets)
    });
    congestion.into_iter().chain(mss).chain(label).filter(|_| !terms.udp).try_for_each(
        |(option, sockets)| {
            let tried = Phase { sockets, ..phase.clone() };
            let named = |error: Refusal| error.as_usage().map(|text| format!("{option}: {text}"));
            (driver.check)(config, &tried).map_err(named)
        },
    )?;
    let Some(port) = spec.local_port else { return Ok(()) };
    let tried = ClientConfig { ports: Some((port, port)), port_option: "--cport", ..config.clone() };
    (driver.check)(&tried, phase)
}

/// The address of -B with its interface, if it is named.
fn bound_to(ip: IpAddr, spec: &Spec, driver: &Driver) -> Result<SocketAddr, Refusal> {
    let client = matches!(spec.role, RunRole::Client(_));
    let text = match &spec.device {
        Some(device) if model::is_link_local(ip) => format!("{ip}%{device}"),
        // A client's address has the interface of its server.
        None if model::is_link_local(ip) && !client => ip.to_string(),
        _ => return Ok(SocketAddr::new(ip, 0)),
    };
    let found = (driver.resolve)(&text, 0, false, false)
        .map_err(|error| error.as_failure().map(|text| format!("parameter error - -B: {text}")))?;
    Ok(found.first().map_or(SocketAddr::new(ip, 0), |peer| peer.address))
}

/// Indents the lines that the server wants shown, and takes control characters out, so that none
/// passes for one of ours.
fn quote(news: &mut BulkNews, quoted: impl Fn(&str) -> String) {
    let BulkNews::Ended(ended) = news else { return };
    if let Some(ServerOutput::Text(text) | ServerOutput::Json(text)) = &mut ended.server_output {
        let line = |line: &str| quoted(&format!("  {}", line.replace('\t', " "))) + "\n";
        *text = text.lines().map(line).collect();
    }
}

fn caller(spec: &Spec, driver: &Driver, host: &str, terms: BulkTerms) -> Result<ClientConfig, Refusal> {
    let (v4, v6) = spec.family;
    let peers = driver.first(host, spec.port, v4, v6).map_err(|error| {
        error.as_failure().map(|text| format!("error - unable to connect to server: {text}"))
    })?;
    let of_silence = Some(spec.limits.silence_ns).filter(|ns| *ns != Limits::default().silence_ns);
    let begin_ns = spec.connect_timeout_ns.into_iter().chain(of_silence).min().unwrap_or(BEGIN_OF_ORIGINAL);
    Ok(ClientConfig {
        peers,
        sources: spec.bind.map(|ip| bound_to(ip, spec, driver)).transpose()?.into_iter().collect(),
        device: spec.device.clone(),
        placement: placement(spec),
        records: false,
        options: ProtocolOptions::new(ClientOptions {
            terms: Some(terms),
            credentials: credentials(spec, driver)?,
            interval_ns: Some(spec.interval_ns),
            port: spec.local_port,
            // The original waits without limit; the user's limit of the connection holds until the
            // test runs.
            begin_ns: Some(begin_ns),
            results_ns: Some(RESULTS_OF_ORIGINAL),
            silence_ns: Some(spec.limits.silence_ns),
            user_timeout_ns: spec.user_timeout_ns,
            keepalive_ns: spec.keepalive_ns,
            file: whole(spec.file.as_ref()),
        }),
        ..driver.client(&crate::PROTOCOL)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BulkEnded;

    #[test]
    fn no_line_of_a_servers_output_passes_for_ours() {
        let forged = "\niperf Done.";
        let text = format!("[  5] local{forged}\r{forged}\x1b[2J{forged}\n{}iperf Done.\n", " ".repeat(80));
        for output in [ServerOutput::Text(text.clone()), ServerOutput::Json(text)] {
            let mut news =
                BulkNews::Ended(Box::new(BulkEnded { server_output: Some(output), ..BulkEnded::default() }));
            // What the driver does is tested in `report`: it has no control characters, and breaks
            // lines.
            quote(&mut news, |line| line.replace(char::is_control, "\u{fffd}"));
            let told = Report::new(Style::USUAL, Facts::default()).on_event(&news);
            let (_, theirs) = told.split_once("utput:\n").expect("it is told");
            assert!(theirs.contains("  iperf Done.") && !theirs.contains(['\x1b', '\r']), "{theirs}");
            let hangs = |line: &str| line.is_empty() || line.starts_with("  ");
            assert!(theirs.lines().all(hangs), "{theirs}");
        }
    }
}
