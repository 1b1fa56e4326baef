//! How far to believe an outcome.

use serde::{Deserialize, Serialize};

/// A reason to doubt a figure, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// A stable name for scripts, in kebab case.
    pub code: String,
    /// One sentence: what was seen and what it means for the figure.
    pub text: String,
    /// One sentence: what to do.
    pub advice: String,
}
