//! Makes a failing history as short as it gets while it still fails.

use super::plan::Plan;

/// Leaves out whatever can be left out: first halves, then smaller and smaller pieces, at last single steps.
pub(crate) fn shrink(plan: &Plan, fails: impl Fn(&Plan) -> bool) -> Plan {
    let mut least = plan.clone();
    let mut piece = least.steps.len() / 2;
    while piece > 0 {
        let mut start = 0;
        let mut dropped = false;
        while start < least.steps.len() {
            let mut shorter = least.clone();
            let end = (start + piece).min(shorter.steps.len());
            shorter.steps.drain(start..end);
            if fails(&shorter) {
                (least, dropped) = (shorter, true);
            } else {
                start = end;
            }
        }
        if piece > 1 {
            piece /= 2;
        } else if !dropped {
            break;
        }
    }
    least
}
