//! The options that iperf3 has.

/// One option: its letter, its name, whether it takes a value.
pub(super) struct Option3(pub(super) char, pub(super) &'static str, pub(super) Value);

/// Whether an option takes a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    None,
    Needed,
    /// Only with `=`.
    Maybe,
}

/// Every option. A letter that no one can type stands for none.
pub(super) const OPTIONS: &[Option3] = &[
    Option3('p', "port", Value::Needed),
    Option3('f', "format", Value::Needed),
    Option3('i', "interval", Value::Needed),
    Option3('I', "pidfile", Value::Needed),
    Option3('F', "file", Value::Needed),
    Option3('A', "affinity", Value::Needed),
    Option3('B', "bind", Value::Needed),
    Option3('\0', "bind-dev", Value::Needed),
    Option3('V', "verbose", Value::None),
    Option3('J', "json", Value::None),
    Option3('\0', "json-stream", Value::None),
    Option3('\0', "json-stream-full-output", Value::None),
    Option3('\0', "logfile", Value::Needed),
    Option3('\0', "forceflush", Value::None),
    Option3('\0', "timestamps", Value::Maybe),
    Option3('\0', "rcv-timeout", Value::Needed),
    Option3('\0', "snd-timeout", Value::Needed),
    Option3('\0', "cntl-ka", Value::Maybe),
    Option3('m', "mptcp", Value::None),
    Option3('d', "debug", Value::Maybe),
    Option3('v', "version", Value::None),
    Option3('h', "help", Value::None),
    Option3('s', "server", Value::None),
    Option3('D', "daemon", Value::None),
    Option3('1', "one-off", Value::None),
    Option3('\0', "server-bitrate-limit", Value::Needed),
    Option3('\0', "server-max-duration", Value::Needed),
    Option3('\0', "idle-timeout", Value::Needed),
    Option3('\0', "rsa-private-key-path", Value::Needed),
    Option3('\0', "authorized-users-path", Value::Needed),
    Option3('\0', "time-skew-threshold", Value::Needed),
    Option3('\0', "use-pkcs1-padding", Value::None),
    Option3('c', "client", Value::Needed),
    Option3('u', "udp", Value::None),
    Option3('\0', "sctp", Value::None),
    Option3('X', "xbind", Value::Needed),
    Option3('\0', "nstreams", Value::Needed),
    Option3('\0', "connect-timeout", Value::Needed),
    Option3('b', "bitrate", Value::Needed),
    Option3('b', "bandwidth", Value::Needed),
    Option3('\0', "pacing-timer", Value::Needed),
    Option3('\0', "fq-rate", Value::Needed),
    Option3('\0', "no-fq-socket-pacing", Value::None),
    Option3('t', "time", Value::Needed),
    Option3('n', "bytes", Value::Needed),
    Option3('k', "blockcount", Value::Needed),
    Option3('l', "length", Value::Needed),
    Option3('\0', "cport", Value::Needed),
    Option3('P', "parallel", Value::Needed),
    Option3('R', "reverse", Value::None),
    Option3('\0', "bidir", Value::None),
    Option3('w', "window", Value::Needed),
    Option3('C', "congestion", Value::Needed),
    Option3('C', "linux-congestion", Value::Needed),
    Option3('M', "set-mss", Value::Needed),
    Option3('N', "no-delay", Value::None),
    Option3('4', "version4", Value::None),
    Option3('6', "version6", Value::None),
    Option3('S', "tos", Value::Needed),
    Option3('\0', "dscp", Value::Needed),
    Option3('L', "flowlabel", Value::Needed),
    Option3('Z', "zerocopy", Value::None),
    Option3('\0', "skip-rx-copy", Value::None),
    Option3('O', "omit", Value::Needed),
    Option3('T', "title", Value::Needed),
    Option3('\0', "extra-data", Value::Needed),
    Option3('\0', "get-server-output", Value::None),
    Option3('\0', "udp-counters-64bit", Value::None),
    Option3('\0', "gsro", Value::None),
    Option3('\0', "repeating-payload", Value::None),
    Option3('\0', "dont-fragment", Value::None),
    Option3('\0', "username", Value::Needed),
    Option3('\0', "rsa-public-key-path", Value::Needed),
];

/// An option by its name, which may be cut short as long as only one begins like that.
pub(super) fn named(name: &str) -> Result<&'static Option3, String> {
    if let Some(exact) = OPTIONS.iter().find(|option| option.1 == name) {
        return Ok(exact);
    }
    let mut close = OPTIONS.iter().filter(|option| option.1.starts_with(name) && !name.is_empty());
    match (close.next(), close.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => Err(format!("'--{name}' could be several options")),
        _ => Err(format!("'--{name}' is not an option of iperf3")),
    }
}
