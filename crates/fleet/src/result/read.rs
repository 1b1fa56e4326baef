//! Documents of agents, read where a report enters and where a run's folder is read: each is an
//! outcome of the test that was ordered, or the task has none for a stated reason. All counts of a
//! run rest on this one reading.

use super::{Ending, PairResult, Reason};
use crate::message::bounded;
use crate::plan::{Plan, TaskId, Verb};
use model::document::Document as _;
use model::ending::{Account, JudgedPhase};
use model::{Kind, Outcome, SCHEMA, Status, clean_json};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use uuid::Uuid;

/// The protocol between agents, as `--protocol` names it.
const OWN: &str = "native";

/// The outcomes of a run that have been read, by the identifiers that agents gave them.
#[derive(Debug, Default)]
pub(crate) struct Documents(HashMap<Uuid, u64>);

impl Documents {
    /// Reads the document of a result. Returns the outcome of a measured one; it bears the name
    /// that the plan gives it, since agents choose their own.
    pub(crate) fn read(&mut self, plan: &Plan, result: &mut PairResult) -> Option<Outcome> {
        let PairResult { task, attempts, .. } = *result;
        match std::mem::replace(&mut result.ending, Ending::missing(Reason::BadResult, "")) {
            Ending::Measured(raw) => match self.outcome(plan, task, &raw) {
                Ok((raw, mut outcome)) => {
                    result.ending = Ending::Measured(raw);
                    outcome.begin.run = plan.outcome_id(task, attempts);
                    return Some(outcome);
                }
                Err(ending) => result.ending = ending,
            },
            Ending::Missing { reason, detail, document: Some(raw) } => {
                let read = clean_outcome(&raw).ok();
                let said = || read.as_ref()?.1.reason.clone();
                let detail = if detail.is_empty() { said().unwrap_or_default() } else { detail };
                let document = read.map(|(raw, _)| raw);
                result.ending = Ending::Missing { reason, detail: bounded(&detail), document };
            }
            Ending::Missing { reason, detail, document: None } => {
                result.ending = Ending::missing(reason, bounded(&detail));
            }
        }
        None
    }

    fn outcome(
        &mut self,
        plan: &Plan,
        task: TaskId,
        raw: &RawValue,
    ) -> Result<(Box<RawValue>, Outcome), Ending> {
        let bad = |why: String| Ending::missing(Reason::BadResult, bounded(&why));
        let (raw, outcome) = clean_outcome(raw).map_err(bad)?;
        differs(plan, task, &outcome).map_or(Ok(()), |why| Err(bad(why)))?;
        let (status, why) = ending(&outcome);
        if status != Status::Complete {
            let ended = || format!("the test ended as {}", status.name());
            let detail = bounded(&why.unwrap_or_else(ended));
            return Err(Ending::Missing { reason: Reason::Failed, detail, document: Some(raw) });
        }
        let mut hasher = DefaultHasher::new();
        raw.get().hash(&mut hasher);
        let content = hasher.finish();
        if *self.0.entry(outcome.begin.run).or_insert(content) != content {
            let run = outcome.begin.run;
            return Err(bad(format!("the identifier {run} belongs to another outcome of the run")));
        }
        Ok((raw, outcome))
    }
}

/// The ending of a test, by its own word and by the counts in its document: a test that its agent
/// calls complete, and of which no end counted anything, has measured nothing.
fn ending(outcome: &Outcome) -> (Status, Option<String>) {
    let own = (outcome.status, outcome.reason.clone());
    if own.0 != Status::Complete {
        return own;
    }
    // A step of a search has failed where its rate is above the capacity, and the search has not.
    let complete = outcome.points.iter().filter(|point| point.status == Status::Complete);
    let judged = complete.map(|point| {
        let asked = JudgedPhase { phase: &point.phase, protocol: "", needs_report: false };
        Account::of(point).ending(asked, (point.status, point.reason.clone()))
    });
    judged.into_iter().find(|(status, _)| *status != Status::Complete).unwrap_or(own)
}

/// A document without characters that a terminal obeys, and the outcome that it is.
fn clean_outcome(raw: &RawValue) -> Result<(Box<RawValue>, Outcome), String> {
    let text = clean_json(raw.get());
    let outcome = Outcome::read(text.as_bytes()).map_err(|e| format!("the report is no outcome: {e}"))?;
    let raw = RawValue::from_string(text.into_owned()).map_err(|e| e.to_string())?;
    Ok((raw, outcome))
}

/// Why an outcome is none of the test that was ordered.
fn differs(plan: &Plan, id: TaskId, outcome: &Outcome) -> Option<String> {
    let begin = &outcome.begin;
    let Some((task, test)) = plan.task_and_test(id) else {
        return Some("no such test was ordered".to_owned());
    };
    if outcome.schema != SCHEMA || begin.verb.is_empty() || outcome.points.is_empty() {
        return Some(
            "the report is no outcome: expected its schema, its verb and what was measured".to_owned(),
        );
    }
    let hosts = [task.from, task.to].map(|host| plan.inventory.host(host)?.passive_protocol());
    let protocol = hosts.into_iter().flatten().next().unwrap_or(OWN);
    let (verb, is_same) = (test.verb.name(), begin.protocol.eq_ignore_ascii_case(protocol));
    if begin.verb != verb || !is_same {
        let found = format!("{} over {}", begin.verb, begin.protocol);
        return Some(format!("the outcome is one of {found}, and {verb} over {protocol} was ordered"));
    }
    let kinds: &[Kind] = match test.verb {
        Verb::Ping => &[Kind::Ping],
        Verb::Delay => &[Kind::Delay],
        Verb::Tcp => &[Kind::Tcp],
        Verb::Train => &[Kind::Train],
        Verb::Capacity => &[Kind::Capacity],
        Verb::Load => &[Kind::Tcp, Kind::Ping, Kind::Delay],
    };
    if !outcome.points.iter().all(|point| kinds.contains(&point.phase.kind)) {
        return Some(format!("the outcome holds measurements of another question than {verb}"));
    }
    let ordered = test.ordered(plan.is_reversed(task));
    let is_ordered = ordered.is_empty() || begin.command.windows(ordered.len()).any(|words| words == ordered);
    let other =
        || format!("the outcome is one of '{}', and '{}' was ordered", begin.command.join(" "), test.words());
    (!is_ordered).then(other)
}

/// The document of a test of this verb that measured something.
#[cfg(test)]
pub(crate) fn document(verb: Verb, arguments: &[String]) -> serde_json::Value {
    let words = ["netcaliper", verb.name(), "10.0.0.1"].map(str::to_owned);
    let command: Vec<String> = words.into_iter().chain(arguments.iter().cloned()).collect();
    let kind = if verb == Verb::Load { "tcp" } else { verb.name() };
    let local = match kind {
        "ping" => serde_json::json!({ "opened": 1, "pings": { "counts": { "sent": 1, "received": 1 } } }),
        _ => serde_json::json!({ "opened": 1, "traffic": { "tx_bytes": 1 } }),
    };
    serde_json::json!({
        "schema": SCHEMA,
        "begin": { "verb": verb.name(), "protocol": OWN, "command": command, "run": Uuid::from_u128(5) },
        "status": "complete",
        "points": [{ "status": "complete", "phase": { "kind": kind }, "local": local }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{Format, Inventory};
    use crate::plan::{Request, Shape, Test};
    use metrics::Wall;
    use serde_json::{Value, json};

    fn plan() -> Plan {
        let hosts = "a\nb nat=true\nc protocol=iperf3\n";
        let arguments = ["-t", "1s"].map(str::to_owned).to_vec();
        let request = Request {
            run: Uuid::from_u128(7),
            shape: Shape::Mesh,
            tests: vec![Test { verb: Verb::Tcp, arguments, ..Test::default() }],
            repeats: 1,
            seed: 1,
            unlike: None,
        };
        Plan::make(Inventory::parse(hosts, Format::Lines).unwrap(), request).unwrap()
    }

    fn raw(document: &Value) -> Box<RawValue> {
        RawValue::from_string(document.to_string()).unwrap()
    }

    fn task(plan: &Plan, from: &str, to: &str) -> TaskId {
        let name = |host| plan.inventory.name(host);
        plan.tasks.iter().find(|task| name(task.from) == from && name(task.to) == to).unwrap().id
    }

    fn read(
        documents: &mut Documents,
        plan: &Plan,
        task: TaskId,
        ending: Ending,
    ) -> (PairResult, Option<Outcome>) {
        let mut result = PairResult { task, attempts: 2, ended: Wall(0), ending };
        let outcome = documents.read(plan, &mut result);
        assert_eq!(outcome.is_some(), result.ending.reason().is_none());
        (result, outcome)
    }

    #[test]
    fn only_an_outcome_of_the_test_that_was_ordered_is_one() {
        let plan = plan();
        let good = document(Verb::Tcp, &plan.tests[0].arguments);
        let with = |path: &str, value: Value| {
            let mut document = good.clone();
            *document.pointer_mut(path).unwrap() = value;
            document
        };
        let reason = |document: &Value, from: &str, to: &str| {
            let ending = Ending::Measured(raw(document));
            read(&mut Documents::default(), &plan, task(&plan, from, to), ending).0.ending.reason()
        };
        let reversed = document(Verb::Tcp, &["-t", "1s", "--reverse"].map(str::to_owned));
        assert_eq!(reason(&reversed, "a", "b"), None, "the client runs behind the NAT");
        assert_eq!(reason(&good, "b", "a"), None);
        let foreign = with("/begin/protocol", "iperf3".into());
        assert_eq!(reason(&foreign, "a", "c"), None);
        for (bad, from, to) in [
            (json!({}), "b", "a"),
            (json!({ "forged": 1 }), "b", "a"),
            (json!([]), "b", "a"),
            (Value::Null, "b", "a"),
            (with("/schema", "netcaliper.fleet.v1".into()), "b", "a"),
            (with("/begin/verb", "".into()), "b", "a"),
            (with("/begin/verb", "ping".into()), "b", "a"),
            (document(Verb::Ping, &plan.tests[0].arguments), "b", "a"),
            (with("/points/0/phase/kind", "ping".into()), "b", "a"),
            (with("/points", json!([])), "b", "a"),
            (with("/begin/command", json!(["netcaliper", "tcp", "-t", "9s"])), "b", "a"),
            (foreign, "b", "a"),
            (good.clone(), "a", "b"),
            (good.clone(), "a", "c"),
        ] {
            assert_eq!(reason(&bad, from, to), Some(Reason::BadResult), "{bad}");
        }
    }

    #[test]
    fn a_failed_outcome_is_failed_and_its_document_stays() {
        let plan = plan();
        let id = task(&plan, "b", "a");
        for status in ["failed", "partial", "interrupted"] {
            let mut document = document(Verb::Tcp, &plan.tests[0].arguments);
            document["status"] = status.into();
            document["reason"] = "refused\u{202e}".into();
            let missing = Ending::Missing {
                reason: Reason::Failed,
                detail: String::new(),
                document: Some(raw(&document)),
            };
            for ending in [Ending::Measured(raw(&document)), missing] {
                let (result, _) = read(&mut Documents::default(), &plan, id, ending);
                let Ending::Missing { reason: Reason::Failed, detail, document: Some(kept) } = &result.ending
                else {
                    panic!("{result:?}")
                };
                assert_eq!(detail, "refused\u{fffd}");
                assert!(kept.get().contains(status) && !kept.get().contains('\u{202e}'));
                let line = serde_json::to_string(&result).unwrap();
                let again: PairResult = serde_json::from_str(&line).unwrap();
                assert!(
                    matches!(again.ending, Ending::Missing { document: Some(again), .. } if again.get() == kept.get())
                );
            }
        }
    }

    #[test]
    fn an_outcome_in_which_nothing_was_counted_has_failed_and_its_document_stays() {
        let plan = plan();
        let id = task(&plan, "b", "a");
        let mut document = document(Verb::Tcp, &plan.tests[0].arguments);
        document["points"][0]["local"]["traffic"]["tx_bytes"] = 0.into();
        let ending = Ending::Measured(raw(&document));
        let (result, _) = read(&mut Documents::default(), &plan, id, ending);
        let Ending::Missing { reason: Reason::Failed, detail, document: Some(_) } = &result.ending else {
            panic!("{result:?}")
        };
        assert_eq!(detail, "1 connection was established, but no payload was sent");
        // A step of a search above the capacity.
        let mut search = super::document(Verb::Tcp, &plan.tests[0].arguments);
        let mut step = document["points"][0].clone();
        step["status"] = "failed".into();
        search["points"].as_array_mut().unwrap().push(step);
        let ending = Ending::Measured(raw(&search));
        assert!(read(&mut Documents::default(), &plan, id, ending).1.is_some());
    }

    #[test]
    fn outcomes_are_named_by_the_plan_and_an_identifier_with_other_content_is_a_lie() {
        let plan = plan();
        let mut documents = Documents::default();
        let mut document = document(Verb::Tcp, &plan.tests[0].arguments);
        let mut found = |document: &Value, from: &str, to: &str| {
            let ending = Ending::Measured(raw(document));
            let (result, outcome) = read(&mut documents, &plan, task(&plan, from, to), ending);
            outcome.map(|outcome| outcome.begin.run).ok_or(result.ending.reason())
        };
        let reversed = ["-t", "1s", "--reverse"].map(str::to_owned);
        let one = found(&document, "b", "a").unwrap();
        assert_eq!(found(&document, "b", "a"), Ok(one), "the same report once more");
        document["begin"]["command"] = json!(reversed);
        assert_eq!(found(&document, "a", "b"), Err(Some(Reason::BadResult)));
        document["begin"]["run"] = json!(Uuid::from_u128(6));
        let other = found(&document, "a", "b").unwrap();
        assert!(one != other && ![5, 6].map(Uuid::from_u128).contains(&other));
    }
}
