//! Options of command lines that one protocol has, as data: their help, and their effect on a
//! phase.

use model::Phase;

/// Options of a command that only one protocol has, under a heading of its help.
#[derive(Debug)]
pub struct OptionGroup {
    /// The command.
    pub command: &'static str,
    /// Heading of the options in its help.
    pub heading: &'static str,
    /// The options, in the order of the help.
    pub options: &'static [ProtocolOption],
}

/// An option that only one protocol has.
#[derive(Debug)]
pub struct ProtocolOption {
    /// Its long name, without dashes.
    pub name: &'static str,
    /// Its text in the help.
    pub help: &'static str,
    /// Its value.
    pub value: OptionValue,
    /// Option of the command that does not go with it.
    pub conflicts: Option<&'static str>,
    /// Changes a phase as a value says; that of a switch is empty.
    pub set: fn(&str, &mut Phase) -> Result<(), String>,
}

impl ProtocolOption {
    /// A switch without effect; the other members are to be replaced.
    pub const SWITCH: Self = ProtocolOption {
        name: "",
        help: "",
        value: OptionValue::Switch,
        conflicts: None,
        set: |_, _| Ok(()),
    };
}

/// The value of an option.
#[derive(Debug)]
pub enum OptionValue {
    /// None.
    Switch,
    /// One, of this name in the help.
    One(&'static str),
    /// Several, separated by commas, of this name in the help.
    List(&'static str),
    /// One of these, each with its text in the help, of this name; the first is the default.
    Of(&'static str, &'static [(&'static str, &'static str)]),
}

/// An option of `serve` for the key that clients of a protocol prove.
#[derive(Debug)]
pub struct KeyOption {
    /// Its long name, without dashes.
    pub name: &'static str,
    /// Variable of the environment that has its value, too.
    pub variable: &'static str,
    /// Its text in the help.
    pub help: &'static str,
}
