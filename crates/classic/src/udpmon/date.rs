//! Dates as C prints them.

use metrics::{SECOND, Wall};

/// A day and time as `ctime` has them, in UTC.
pub(super) fn date(at: Wall) -> String {
    let seconds = at.0.div_euclid(SECOND as i64);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days from the civil calendar, turned around: years begin in March, so that leap days come last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march + 2) / 5 + 1;
    let month = (march + 2) % 12;
    let year = era * 400 + year_of_era + i64::from(month < 2);
    let name = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let week = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][days.rem_euclid(7) as usize];
    let month = name[month as usize];
    format!("{week} {month} {day:2} {:02}:{:02}:{:02} {year}", second / 3_600, second / 60 % 60, second % 60)
}
