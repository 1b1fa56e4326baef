//! The table of ctsTraffic's options: one row each, from which arguments are read and help pages
//! are printed.

mod table;

use super::grammar::{one_of, range_of, rate_of, u64_of, within};
use super::raw::Arg;
use super::spec::{Role, Transport};
pub(super) use table::ROWS;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Page {
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

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// One of the words that the row names.
    Word,
    Number(u32, u32),
    /// 64 bits.
    Wide,
    /// Above 0.
    Rate,
    /// A rate in whole bytes.
    Bits,
    Range(&'static Kind),
}

pub(super) struct OptionRow {
    /// Its name, spelt as in the original.
    pub(super) name: &'static str,
    /// Values after the colon, for the help page.
    pub(super) value: &'static str,
    /// Further values.
    pub(super) also: &'static str,
    pub(super) kind: Kind,
    pub(super) page: Page,
    /// The end that it is for; `None` is both.
    pub(super) who: Option<Role>,
    /// The transport that it is for; `None` is both.
    pub(super) over: Option<Transport>,
    /// Another option, or one of its words, that this one needs.
    pub(super) needs: Option<&'static str>,
    /// True if it may be given several times.
    pub(super) many: bool,
    /// Explains it, its default included.
    pub(super) help: &'static str,
}

impl OptionRow {
    pub(super) fn read(&self, text: &str) -> Result<Arg, String> {
        match self.kind {
            Kind::Text => Ok(Arg::Text(text.to_owned())),
            Kind::Word => {
                // Words that no help explains are understood and not offered.
                let (words, also) = (self.value.split('|'), self.also.split('|'));
                let also = also.filter(|word| !word.is_empty()).find(|word| text.eq_ignore_ascii_case(word));
                also.map_or_else(|| one_of(text, words), Ok).map(Arg::Word)
            }
            Kind::Range(kind) => {
                range_of(text, |text| number(*kind, text)).map(|(low, high)| Arg::Number(low, high))
            }
            kind => number(kind, text).map(|n| Arg::Number(n, None)),
        }
    }
}

fn number(kind: Kind, text: &str) -> Result<u64, String> {
    match kind {
        Kind::Number(low, high) => within(text, low.into()..=high.into()),
        Kind::Rate => rate_of(text),
        Kind::Bits => match rate_of(text)? / 8 * 8 {
            0 => Err(format!("'{text}' must be at least 8")),
            bits => Ok(bits),
        },
        _ => u64_of(text),
    }
}

/// The option of this name (in lower case, the dash included).
pub(super) fn find(name: &str) -> Option<&'static OptionRow> {
    ROWS.iter().find(|row| row.name.eq_ignore_ascii_case(name))
}

/// The option whose name is most like `name`, if one is.
pub(super) fn like(name: &str) -> Option<&'static str> {
    let given = name.trim_start_matches(['-', '/']).to_ascii_lowercase();
    let local = |row: &&OptionRow| {
        let known = row.name[1..].to_ascii_lowercase();
        let longer = given.len().max(known.len());
        (metrics::distance(&given, &known), longer)
    };
    let best = ROWS.iter().min_by_key(|row| local(row).0)?;
    let (apart, longer) = local(&best);
    (apart * 3 <= longer).then_some(best.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_complete_and_no_name_stands_twice() {
        let names: BTreeSet<String> = ROWS.iter().map(|row| row.name.to_ascii_lowercase()).collect();
        assert_eq!(names.len(), ROWS.len());
        for row in ROWS {
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
        let ours: BTreeSet<String> = ROWS.iter().map(|row| row.name.to_owned()).collect();
        assert_eq!(ours, known);
    }

    #[test]
    fn a_slip_is_recognised() {
        assert_eq!(like("-conections"), Some("-Connections"));
        assert_eq!(like("/Target"), Some("-Target"));
        assert_eq!(like("--port"), Some("-Port"));
        assert_eq!(like("-nothinglikeit"), None);
    }
}
