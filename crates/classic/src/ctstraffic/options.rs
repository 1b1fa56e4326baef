//! The table of ctsTraffic's options: one row each, from which arguments are read and help pages are printed.

mod advanced;
mod basic;
mod logging;
mod tcp;
mod udp;

use super::draft::Draft;
use super::spec::{Role, Transport};

/// A help page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Page {
    /// `-Help`, `-?`, no arguments at all: the overview.
    Overview,
    /// `-Help:Tcp`.
    Tcp,
    /// `-Help:Udp`.
    Udp,
    /// `-Help:Logging`.
    Logging,
    /// `-Help:Advanced`.
    Advanced,
}

/// Where an option belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Only<T> {
    /// Anywhere.
    Any,
    /// Only there.
    This(T),
}

/// What another option must be for this one to count.
#[derive(Clone, Copy)]
pub(super) struct Need {
    /// In words: the option that is missing.
    pub(super) text: &'static str,
    /// Whether it is there.
    pub(super) met: fn(&Draft) -> bool,
}

/// One option.
pub(super) struct Row {
    /// Its name, spelt as in the original.
    pub(super) name: &'static str,
    /// What may follow the colon, for the help page.
    pub(super) value: &'static str,
    /// The page that explains it.
    pub(super) page: Page,
    /// The end that it is for.
    pub(super) who: Only<Role>,
    /// The transport that it is for.
    pub(super) over: Only<Transport>,
    /// What else must be given.
    pub(super) needs: Option<Need>,
    /// Whether it may be given several times.
    pub(super) many: bool,
    /// Reads its value.
    pub(super) take: fn(&mut Draft, &str) -> Result<(), String>,
    /// Explains it, its default included.
    pub(super) help: &'static str,
}

/// An option for everybody, given at most once.
const ROW: Row = Row {
    name: "",
    value: "",
    page: Page::Overview,
    who: Only::Any,
    over: Only::Any,
    needs: None,
    many: false,
    take: |_, _| Ok(()),
    help: "",
};

const CLIENT: Only<Role> = Only::This(Role::Client);
const SERVER: Only<Role> = Only::This(Role::Server);
const TCP: Only<Transport> = Only::This(Transport::Tcp);
const UDP: Only<Transport> = Only::This(Transport::Udp);

/// All options, in the order of the help pages.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    [basic::ROWS, tcp::ROWS, udp::ROWS, logging::ROWS, advanced::ROWS].into_iter().flatten()
}

/// The option of this name (in lower case, the dash included).
pub(super) fn find(name: &str) -> Option<&'static Row> {
    rows().find(|row| row.name.eq_ignore_ascii_case(name))
}

/// The option whose name is most like `name`, if one is.
pub(super) fn like(name: &str) -> Option<&'static str> {
    let given = name.trim_start_matches(['-', '/']).to_ascii_lowercase();
    let near = |row: &&Row| {
        let known = row.name[1..].to_ascii_lowercase();
        let longer = given.len().max(known.len());
        (distance(&given, &known), longer)
    };
    let best = rows().min_by_key(|row| near(row).0)?;
    let (apart, longer) = near(&best);
    (apart * 3 <= longer).then_some(best.name)
}

/// Letters to add, take away or change (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_complete_and_no_name_stands_twice() {
        let names: BTreeSet<String> = rows().map(|row| row.name.to_ascii_lowercase()).collect();
        assert_eq!(names.len(), rows().count());
        for row in rows() {
            assert!(
                row.name.starts_with('-') && !row.value.is_empty() && row.help.len() > 20,
                "{}",
                row.name
            );
        }
    }

    /// Every option of the tables of ctsTraffic 2.0.4.0, and our own three.
    #[test]
    fn the_table_has_every_option_of_the_original() {
        let known = "Listen Target Bind Port Protocol Pattern PushBytes PullBytes Transfer Buffer RateLimit \
            RateLimitPeriod BurstCount BurstDelay Verify Shutdown Connections Iterations ServerExitLimit \
            ThrottleConnections TimeLimit PauseAtEnd OnError BitsPerSecond FrameRate StreamLength BufferDepth \
            DatagramByteSize EnableRecvSharding ShardCount ShardWorkerCount IocpBatchSize AffinityPolicy \
            ConsoleVerbosity StatusUpdate ConnectionFilename ErrorFilename StatusFilename JitterFilename \
            TcpInfoFilename Acc Conn IO InlineCompletions MsgWaitAll PrePostRecvs PrePostSends RecvBufValue \
            SendBufValue Options KeepAliveValue LocalPort PortScalability IfIndex Compartment QosDscpValue \
            CpuSetGroupId ThreadPool LogEncoding StallTimeout Allow";
        let known: BTreeSet<String> = known.split_whitespace().map(|name| format!("-{name}")).collect();
        let ours: BTreeSet<String> = rows().map(|row| row.name.to_owned()).collect();
        assert_eq!(ours, known);
    }

    #[test]
    fn a_slip_is_recognised() {
        assert_eq!(like("-conections"), Some("-Connections"));
        assert_eq!(like("/Target"), Some("-Target"));
        assert_eq!(like("--port"), Some("-Port"));
        assert_eq!(like("-nothinglikeit"), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
