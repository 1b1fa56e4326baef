//! The one way out of a question that fails, or is interrupted, before it has a result: in the
//! forms and files that were asked for.

use crate::args::{JsonArg, OutputArgs};
use crate::command::Command;
use crate::outputs::{self, Outputs};
use crate::protocols::{self, Protocol};
use crate::provenance;
use common::ClientConfig;
use console::error::{CliError, Exit};
use model::{Begin, Builder, Event, Phase, Status};
use report::{EventWriter as _, Journal};
use std::io::{self, Write};

/// Forms and files in which the failure of a question is reported.
pub(crate) struct Form {
    verb: &'static str,
    output: OutputArgs,
    protocol: Protocol,
    targets: Vec<String>,
}

impl Form {
    /// The forms of a command that measures; other commands have the sentence on stderr alone.
    pub(crate) fn of(command: &Command) -> Option<Form> {
        let (verb, target, output) = match command {
            Command::Question(question) => {
                let (verb, target, output) = question.parts();
                (verb, Some(target), output)
            }
            Command::Serve(args) => ("serve", None, &args.output),
            Command::Demo(args) => ("demo", None, &args.output),
            _ => return None,
        };
        Some(Form {
            verb,
            output: output.clone(),
            protocol: target.map_or(protocols::NATIVE, |target| target.protocol),
            targets: target.map_or_else(Vec::new, |target| target.targets.clone()),
        })
    }

    /// Reports why there is no result: a name without an address, a port that is in use, a setting
    /// that the system refuses, a request to end. A command line that is refused writes no files.
    pub(crate) fn report(&self, error: &CliError, command: Vec<String>) {
        if error.text.is_empty() {
            // The reader of stdout is gone.
            return;
        }
        let status = if error.exit == Exit::Interrupted { Status::Interrupted } else { Status::Failed };
        let end = Event::End { status, reason: Some(error.text.clone()) };
        let begin = self.begin(command);
        // If a file is the cause of the failure, the rest of the report goes to stdout alone.
        if !outputs::has_begun()
            && error.exit != Exit::Usage
            && let Ok(outputs) = Outputs::of_failure(&self.output)
        {
            outputs.fail(begin, &end);
            return;
        }
        // If stdout takes no more, the sentence on stderr and the exit code report the failure.
        let _ = self.print(&[Event::Begin(Box::new(begin)), end], &mut io::stdout().lock());
    }

    fn begin(&self, command: Vec<String>) -> Begin {
        let (run, version) = (runtime::run_id(), provenance::VERSION.to_owned());
        let config = ClientConfig { run, version, ..ClientConfig::new(self.protocol) };
        let begin = runtime::begin(&config, self.verb, command, &Phase::default());
        Begin { targets: self.targets.clone(), ..begin }
    }

    fn print(&self, events: &[Event], out: &mut impl Write) -> io::Result<()> {
        let mut builder = Builder::default();
        events.iter().for_each(|event| builder.absorb(event));
        match self.output.json {
            Some(JsonArg::All) => report::write_outcome(&builder.outcome(), &mut *out)?,
            Some(JsonArg::Summary) => report::write_summary(&builder.outcome(), &mut *out)?,
            None if self.output.jsonl => {
                // The lines of a run that had begun are on stdout already.
                let mut lines = Journal::new(&mut *out);
                let mut left = events.iter().skip(usize::from(outputs::has_begun()));
                left.try_for_each(|event| lines.on_event(event))?;
            }
            None => {}
        }
        out.flush()
    }
}
