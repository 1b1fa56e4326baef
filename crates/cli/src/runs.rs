//! Runs that are over: kept, saved, compared, imported and exported.

pub(crate) mod compare;
pub(crate) mod import_export;
pub(crate) mod kept;
pub(crate) mod saved;
