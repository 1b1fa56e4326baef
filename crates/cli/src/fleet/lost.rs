//! Messages about hosts that are lost or cannot be reached: one for each host and cause, whatever
//! the number of tries.

use fleet::inventory::HostId;
use fleet::result::Reason;
use metrics::format_count;
use std::collections::BTreeMap;

/// Most hosts with messages of their own.
const MOST_HOSTS: usize = 20;
/// Most causes of a host that are reported.
const MOST_CAUSES: usize = 3;

/// The hosts that were lost so far.
#[derive(Default)]
pub(super) struct LostHosts {
    hosts: BTreeMap<HostId, LostHost>,
}

#[derive(Default)]
struct LostHost {
    name: String,
    causes: Vec<(Reason, String)>,
    times: u32,
}

impl LostHosts {
    /// Counts a loss. Returns its message, unless the host has had the same one, or many hosts have
    /// theirs.
    pub(super) fn add(&mut self, host: HostId, name: &str, reason: Reason, why: String) -> Option<String> {
        let is_full = self.hosts.len() >= MOST_HOSTS && !self.hosts.contains_key(&host);
        let lost = self.hosts.entry(host).or_default();
        name.clone_into(&mut lost.name);
        lost.times = lost.times.saturating_add(1);
        let cause = (reason, why);
        if lost.causes.contains(&cause) || lost.causes.len() >= MOST_CAUSES {
            return None;
        }
        let message = format!("{name}: {reason}: {}", cause.1);
        lost.causes.push(cause);
        (!is_full).then_some(message)
    }

    /// The number of times that each host was lost, where it is more than the messages.
    pub(super) fn summary(&self) -> Option<String> {
        let is_more = |lost: &&LostHost| lost.times as usize > lost.causes.len();
        let more = self.hosts.len().saturating_sub(MOST_HOSTS);
        let often = self.hosts.values().filter(is_more);
        let mut named: Vec<String> = often
            .take(MOST_HOSTS)
            .map(|lost| format!("{} {}", lost.name, format_count(lost.times.into(), "time")))
            .collect();
        if more > 0 {
            named.push(format_count(more as u64, "more host"));
        }
        (!named.is_empty()).then(|| format!("lost, or not reached: {}", named.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_tried_often_has_one_message() {
        let mut lost = LostHosts::default();
        let mut add = |host: u32, why: &str| {
            let name = format!("h{host}");
            lost.add(HostId(host), &name, Reason::HostAbsent, why.to_owned())
        };
        assert_eq!(add(7, "no route").as_deref(), Some("h7: host absent: no route"));
        assert_eq!(add(7, "no route"), None);
        assert_eq!(add(7, "refused").as_deref(), Some("h7: host absent: refused"));
        assert_eq!(add(7, "no route"), None);
        assert!(add(8, "no route").is_some());
        assert_eq!(lost.summary().as_deref(), Some("lost, or not reached: h7 4 times"));
        let messages = (10..200).filter_map(|host| {
            lost.add(HostId(host), &format!("h{host}"), Reason::HostAbsent, String::new())
        });
        assert_eq!(messages.count(), MOST_HOSTS - 2);
        let summary = lost.summary().unwrap_or_default();
        assert_eq!(summary, "lost, or not reached: h7 4 times, 172 more hosts");
    }

    #[test]
    fn a_host_that_was_lost_once_needs_no_summary() {
        let mut lost = LostHosts::default();
        assert!(lost.summary().is_none());
        assert!(lost.add(HostId(1), "h1", Reason::AgentLost, String::new()).is_some());
        assert!(lost.summary().is_none());
    }
}
