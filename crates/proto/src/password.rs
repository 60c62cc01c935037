//! Session passwords. They are a checksum of the session id, not a secret. All servers of an ensemble,
//! including ZooKeeper's, must compute the same one, so that a client can move between them.

use crate::ids::SessionId;

/// Length of every session password.
pub const PASSWORD_LENGTH: usize = 16;

const SECRET: i64 = 0xB341_5C00;
const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const MASK: u64 = (1 << 48) - 1;

/// The password of a session: four outputs of Java's 48-bit generator, seeded with the id.
pub fn session_password(session: SessionId) -> [u8; PASSWORD_LENGTH] {
    let mut state = ((session.0 ^ SECRET) as u64 ^ MULTIPLIER) & MASK;
    let mut password = [0; PASSWORD_LENGTH];
    for word in password.chunks_exact_mut(4) {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        word.copy_from_slice(&((state >> 16) as u32).to_le_bytes());
    }
    password
}

/// Whether `password` belongs to `session`. Session zero has none.
pub fn password_matches(session: SessionId, password: &[u8]) -> bool {
    session != SessionId::NONE && password == session_password(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_apache() {
        for (session, expected) in [
            (0x0000_0000_0000_0001, 0x054c_c74a_3732_7db2_15e7_02e2_0c73_f005),
            (0x0001_0000_0000_0000, 0xf22a_cd4a_97e6_9d6d_20a4_9bb6_38ea_db38),
            (0x0100_abcd_ef12_0000, 0x9c4f_63ba_f93e_340e_da51_5fa0_6afe_b902),
            (0x0100_0123_4567_89ab, 0x2377_10bc_62d7_7989_a42e_8da7_7022_789d_u128),
        ] {
            assert_eq!(u128::from_be_bytes(session_password(SessionId(session))), expected);
        }
        assert!(!password_matches(SessionId::NONE, &session_password(SessionId::NONE)));
    }
}
