//! Rendezvous hashing: every member ranks every resource alike, without talking.
//!
//! 64-bit FNV-1a over length-prefixed ids, then a finaliser (FNV alone gives nearly all of a run of sequential
//! ids to one member). The result is part of the plan's version: changing it changes everybody's plan.

/// FNV-1a over the length of an id and its bytes.
#[must_use]
pub fn hash_id(id: &str) -> u64 {
    let length = (id.len() as u64).to_le_bytes();
    length.iter().chain(id.as_bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Spreads every bit of the input over all of the output.
#[must_use]
pub fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// How much a member (by the hash of its id) is preferred for a resource (by the hash of its id).
#[must_use]
pub fn score(member: u64, resource: u64) -> u64 {
    mix(member.rotate_left(32) ^ resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves C26
    #[test]
    fn ids_are_told_apart_where_concatenation_would_not() {
        assert_ne!(score(hash_id("ab"), hash_id("c")), score(hash_id("a"), hash_id("bc")));
        assert_ne!(hash_id(""), hash_id("\0"));
    }

    // proves C18
    #[test]
    fn sequential_ids_do_not_all_go_to_one_member() {
        let members: Vec<u64> = ["node-1", "node-2", "node-3"].iter().map(|id| hash_id(id)).collect();
        let mut won = [0; 3];
        for number in 0..3000 {
            let resource = hash_id(&format!("endpoint-{number}"));
            let best = (0..3).max_by_key(|m| score(members[*m], resource)).unwrap();
            won[best] += 1;
        }
        assert!(won.iter().all(|count| (850..1150).contains(count)), "{won:?}");
    }
}
