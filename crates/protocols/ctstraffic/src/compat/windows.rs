//! Windows' numbers and words for what went wrong, as the original's logs have them.

use super::spec::Transport;
use metrics::Ending;
use model::{ConnectionRecord, Failure};

/// Outcome of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConnectionOutcome {
    Succeeded,
    /// One of the three protocol errors, by its name.
    Protocol(&'static str),
    /// The system's error: Windows' number and words.
    System(u32, String),
}

const NOT_ALL: &str = "ErrorNotAllDataTransferred";
const TOO_MUCH: &str = "ErrorTooMuchDataTransferred";

/// `ECONNRESET` and `ECONNREFUSED` of Linux.
const RESET: i32 = 104;
const REFUSED: i32 = 111;

/// Windows' error number, its words, and Linux's numbers for it.
const ERRORS: &[(u32, &str, &[i32])] = &[
    (10004, "A blocking operation was interrupted.", &[4]),
    (10009, "The file handle supplied is not valid.", &[9]),
    (10013, "An attempt was made to access a socket in a way forbidden by its access permissions.", &[13, 1]),
    (10014, "The system detected an invalid pointer address.", &[14]),
    (10022, "An invalid argument was supplied.", &[22]),
    (10024, "Too many open sockets.", &[24, 23]),
    (10038, "An operation was attempted on something that is not a socket.", &[88]),
    (
        10040,
        "A message sent on a datagram socket was larger than the internal message buffer or a network limit.",
        &[90],
    ),
    (10043, "The requested protocol is not available.", &[93]),
    (10045, "The attempted operation is not supported for this type of socket.", &[95]),
    (10047, "An address incompatible with the requested protocol was used.", &[97]),
    (
        10048,
        "Only one usage of each socket address (protocol/network address/port) is normally permitted.",
        &[98],
    ),
    (10049, "The requested address is not valid in its context.", &[99]),
    (10050, "A socket operation encountered a dead network.", &[100]),
    (10051, "A socket operation was attempted to an unreachable network.", &[101]),
    (
        10052,
        "The connection was broken because of keep-alive activity while an operation was in progress.",
        &[102],
    ),
    (10053, "An established connection was aborted by the software in your host machine.", &[103]),
    (10054, "An existing connection was forcibly closed by the remote host.", &[RESET, 32]),
    (
        10055,
        "An operation on a socket could not be performed because the system lacked sufficient buffer space.",
        &[105, 12],
    ),
    (10056, "A connect request was made on an already connected socket.", &[106]),
    (10057, "A request to send or receive data was disallowed because the socket is not connected.", &[107]),
    (10060, TIMED_OUT, &[110]),
    (10061, "No connection could be made because the target machine actively refused it.", &[REFUSED]),
    (10064, "A socket operation failed because the destination host was down.", &[112]),
    (10065, "A socket operation was attempted to an unreachable host.", &[113]),
];
const TIMED_OUT: &str = "The connected party did not properly respond after a period of time.";

/// Windows' number and words for a Linux error number; an unknown one stays as it is, with Linux's
/// words.
fn of_errno(errno: i32) -> (u32, String) {
    match ERRORS.iter().find(|(.., linux)| linux.contains(&errno)) {
        Some(&(number, words, _)) => (number, words.to_owned()),
        None => (errno.unsigned_abs(), std::io::Error::from_raw_os_error(errno).to_string()),
    }
}

/// Verdict on a connection; `None` when the end of the run cut it, which the original counts
/// nowhere.
pub(super) fn verdict(record: &ConnectionRecord, transport: Transport) -> Option<ConnectionOutcome> {
    Some(match (record.result, &record.failure) {
        (Ending::Completed, _) => ConnectionOutcome::Succeeded,
        (Ending::Stopped, _) => return None,
        (_, Some(Failure::System { errno, deed })) => {
            // Windows reports a closed UDP port as a reset.
            let refused = transport == Transport::Udp && *errno == REFUSED;
            let (number, mut words) = of_errno(if refused { RESET } else { *errno });
            // Linux' error when all ephemeral ports are taken, many of them by TIME_WAIT.
            if number == 10049 && deed == "connect" {
                words.push_str(" (no local port is left)");
            }
            ConnectionOutcome::System(number, words)
        }
        (_, Some(Failure::BadData)) => ConnectionOutcome::Protocol("ErrorDataDidNotMatchBitPattern"),
        (_, Some(Failure::TooFew)) => ConnectionOutcome::Protocol(NOT_ALL),
        (_, Some(Failure::TooMany)) => ConnectionOutcome::Protocol(TOO_MUCH),
        (_, Some(Failure::Stalled)) => {
            ConnectionOutcome::System(10060, record.error.clone().unwrap_or_else(|| TIMED_OUT.to_owned()))
        }
        (Ending::NetworkError, _) => {
            ConnectionOutcome::System(10053, record.error.clone().unwrap_or_default())
        }
        (Ending::DataError | Ending::ProtocolError, _) => ConnectionOutcome::Protocol(NOT_ALL),
    })
}

impl ConnectionOutcome {
    /// The cell of the `Result` column: no commas, on one line.
    pub(super) fn cell(&self) -> String {
        match self {
            ConnectionOutcome::Succeeded => "Succeeded".to_owned(),
            ConnectionOutcome::Protocol(name) => (*name).to_owned(),
            ConnectionOutcome::System(number, words) => {
                format!("{number}: {}", one_line(words).replace(',', " "))
            }
        }
    }
}

/// Text without line breaks and other control characters.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The function that failed, by the name Windows' programmers know; `connect` is what connections
/// are made with.
pub(super) fn function<'a>(deed: &'a str, connect: &'a str) -> &'a str {
    match deed {
        "open" => "socket",
        "connect" => connect,
        "send" => "WSASend",
        "receive" => "WSARecv",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::tests::record;
    use super::*;

    /// The map that the notes on ctsTraffic recommend; error numbers of Linux's
    /// asm-generic/errno.h.
    #[test]
    fn error_numbers() {
        for (errno, number) in [
            (104, 10054),
            (111, 10061),
            (110, 10060),
            (98, 10048),
            (101, 10051),
            (113, 10065),
            (105, 10055),
            (90, 10040),
            (103, 10053),
            (32, 10054),
        ] {
            assert_eq!(of_errno(errno).0, number, "errno {errno}");
        }
        assert_eq!(of_errno(5).0, 5, "an unknown number stays");
    }

    /// The notes on ctsTraffic: an answer of ICMP ends a UDP client with 10054, a refused TCP
    /// connect with 10061.
    #[test]
    fn a_closed_port_is_a_reset_over_udp() {
        let failure = Some(Failure::System { deed: "receive".to_owned(), errno: 111 });
        let record = ConnectionRecord { result: Ending::NetworkError, failure, ..record() };
        let number = |transport| match verdict(&record, transport) {
            Some(ConnectionOutcome::System(number, _)) => number,
            other => panic!("{other:?}"),
        };
        assert_eq!((number(Transport::Udp), number(Transport::Tcp)), (10054, 10061));
    }

    #[test]
    fn result_cells_hold_no_commas() {
        let cell = ConnectionOutcome::System(10061, "a, b\r\nc".to_owned()).cell();
        assert_eq!(cell, "10061: a  b  c");
        assert_eq!(ConnectionOutcome::Protocol(TOO_MUCH).cell(), "ErrorTooMuchDataTransferred");
    }
}
