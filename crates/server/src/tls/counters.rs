//! Counters of failed protection for `mntr`: handshakes by reason, certificate and login files that could not
//! be read again, SASL failures, and the days until a certificate of this server ends.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use rustls::CertificateError;
use zebu_metrics::{MetricsView, SeriesValue};
use zebu_security::verify::HostCheckError;

use super::ReloadingTls;
use crate::metrics::Counter;

const SECONDS_PER_DAY: i64 = 86_400;

/// Why a TLS handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeFailure {
    /// The connection ended within the handshake.
    Closed,
    /// It took too long.
    Timeout,
    /// The peer does not speak TLS, or sends records that are none.
    NotTls,
    /// No common version, suite or signature.
    Protocol,
    /// The peer shows no certificate, and one is needed.
    NoCertificate,
    /// The certificate is of no trusted authority.
    UnknownAuthority,
    /// The certificate has ended or is not valid yet.
    NotInTime,
    /// The certificate is revoked, or its status is not known.
    Revoked,
    /// The certificate has another name than the peer.
    WrongName,
    /// Another fault of the certificate.
    BadCertificate,
    /// The peer refused the certificate of this server, or another part of its answer.
    RefusedByPeer,
    /// All else.
    Other,
}

impl HandshakeFailure {
    const ALL: [HandshakeFailure; 12] = [
        HandshakeFailure::Closed,
        HandshakeFailure::Timeout,
        HandshakeFailure::NotTls,
        HandshakeFailure::Protocol,
        HandshakeFailure::NoCertificate,
        HandshakeFailure::UnknownAuthority,
        HandshakeFailure::NotInTime,
        HandshakeFailure::Revoked,
        HandshakeFailure::WrongName,
        HandshakeFailure::BadCertificate,
        HandshakeFailure::RefusedByPeer,
        HandshakeFailure::Other,
    ];

    /// The reason behind the error of a handshake.
    pub(crate) fn of(error: &io::Error) -> HandshakeFailure {
        match rustls_error(error) {
            Some(error) => HandshakeFailure::of_tls(error),
            None if is_close(error) => HandshakeFailure::Closed,
            None => HandshakeFailure::Other,
        }
    }

    fn of_tls(error: &rustls::Error) -> HandshakeFailure {
        match error {
            rustls::Error::InvalidMessage(_) => HandshakeFailure::NotTls,
            rustls::Error::PeerIncompatible(_) => HandshakeFailure::Protocol,
            rustls::Error::NoCertificatesPresented => HandshakeFailure::NoCertificate,
            rustls::Error::AlertReceived(_) => HandshakeFailure::RefusedByPeer,
            rustls::Error::InvalidCertificate(fault) => HandshakeFailure::of_certificate(fault),
            _ => HandshakeFailure::Other,
        }
    }

    fn of_certificate(fault: &CertificateError) -> HandshakeFailure {
        match fault {
            CertificateError::UnknownIssuer => HandshakeFailure::UnknownAuthority,
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => HandshakeFailure::NotInTime,
            CertificateError::Revoked
            | CertificateError::UnknownRevocationStatus
            | CertificateError::ExpiredRevocationList => HandshakeFailure::Revoked,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                HandshakeFailure::WrongName
            }
            CertificateError::Other(problem) if problem.0.is::<HostCheckError>() => {
                HandshakeFailure::WrongName
            }
            _ => HandshakeFailure::BadCertificate,
        }
    }

    fn name(self) -> &'static str {
        match self {
            HandshakeFailure::Closed => "closed",
            HandshakeFailure::Timeout => "timeout",
            HandshakeFailure::NotTls => "not_tls",
            HandshakeFailure::Protocol => "protocol",
            HandshakeFailure::NoCertificate => "no_certificate",
            HandshakeFailure::UnknownAuthority => "unknown_ca",
            HandshakeFailure::NotInTime => "not_in_time",
            HandshakeFailure::Revoked => "revoked",
            HandshakeFailure::WrongName => "wrong_name",
            HandshakeFailure::BadCertificate => "bad_certificate",
            HandshakeFailure::RefusedByPeer => "refused_by_peer",
            HandshakeFailure::Other => "other",
        }
    }
}

/// The TLS error inside an error of a stream.
pub(crate) fn rustls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
}

/// Whether the peer ended the connection.
pub(crate) fn is_close(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}

/// The counters of one family: client ports, or ports between servers.
#[derive(Debug, Default)]
pub(crate) struct FamilyCounters {
    handshakes_failed: [Counter; HandshakeFailure::ALL.len()],
    /// Changed certificate files that could not be used.
    pub(crate) reloads_failed: Counter,
}

impl FamilyCounters {
    /// Counts a failed handshake.
    pub(crate) fn handshake_failed(&self, reason: HandshakeFailure) {
        self.handshakes_failed[reason as usize].increment();
    }

    fn reset(&self) {
        self.handshakes_failed.iter().chain([&self.reloads_failed]).for_each(Counter::reset);
    }
}

/// The counters of all protected ports. A family without TLS has none.
#[derive(Debug, Default)]
pub(crate) struct ProtectionCounters {
    client: OnceLock<Arc<ReloadingTls>>,
    quorum: OnceLock<Arc<ReloadingTls>>,
    /// SASL exchanges of clients that failed.
    pub(crate) sasl_failed: Counter,
    /// Changed JAAS files that could not be used.
    pub(crate) login_reloads_failed: Counter,
}

impl ProtectionCounters {
    /// Shows the counters of the client ports.
    pub(crate) fn set_client_tls(&self, tls: &Arc<ReloadingTls>) {
        let _ = self.client.set(tls.clone());
    }

    /// Shows the counters of the ports between servers.
    pub(crate) fn set_quorum_tls(&self, tls: &Arc<ReloadingTls>) {
        let _ = self.quorum.set(tls.clone());
    }

    /// Adds the values to the view of all metrics.
    pub(crate) fn add_to(&self, view: &mut MetricsView) {
        let names = [
            (
                &self.client,
                "zebu_tls_certificate_days_left",
                "zebu_tls_certificate_reloads_failed",
                "zebu_tls_handshakes_failed",
            ),
            (
                &self.quorum,
                "zebu_quorum_tls_certificate_days_left",
                "zebu_quorum_tls_certificate_reloads_failed",
                "zebu_quorum_tls_handshakes_failed",
            ),
        ];
        for (family, days_left, reloads_failed, handshakes_failed) in names {
            let Some(family) = family.get() else { continue };
            if let Some(days) = family.seconds_left(unix_seconds()).map(days) {
                view.gauge(days_left, days);
            }
            let counters = family.counters();
            view.counter(reloads_failed, &counters.reloads_failed);
            let reasons = HandshakeFailure::ALL.iter().zip(&counters.handshakes_failed);
            let failed = reasons
                .map(|(reason, counter)| (reason.name().into(), (counter.total(), counter.since_reset())))
                .collect();
            view.set(handshakes_failed, SeriesValue::Counters(failed));
        }
        view.counter("zebu_sasl_failures", &self.sasl_failed);
        view.counter("zebu_sasl_users_reloads_failed", &self.login_reloads_failed);
    }

    /// Resets all counters, for `srst`.
    pub(crate) fn reset(&self) {
        for family in [&self.client, &self.quorum].into_iter().filter_map(OnceLock::get) {
            family.counters().reset();
        }
        self.sasl_failed.reset();
        self.login_reloads_failed.reset();
    }
}

/// Whole days; negative once the time is over.
pub(super) fn days(seconds: i64) -> i64 {
    seconds.div_euclid(SECONDS_PER_DAY)
}

/// The wall clock.
pub(super) fn unix_seconds() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use rustls::{InvalidMessage, OtherError, PeerIncompatible};

    use super::*;

    #[test]
    fn reasons_of_errors() {
        let tls = |error: rustls::Error| HandshakeFailure::of(&io::Error::other(error));
        let certificate = |fault| tls(rustls::Error::InvalidCertificate(fault));
        let not_tls = rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType);
        assert_eq!(tls(not_tls), HandshakeFailure::NotTls);
        let no_version = rustls::Error::PeerIncompatible(PeerIncompatible::Tls12NotOfferedOrEnabled);
        assert_eq!(tls(no_version), HandshakeFailure::Protocol);
        assert_eq!(tls(rustls::Error::NoCertificatesPresented), HandshakeFailure::NoCertificate);
        assert_eq!(certificate(CertificateError::UnknownIssuer), HandshakeFailure::UnknownAuthority);
        assert_eq!(certificate(CertificateError::Expired), HandshakeFailure::NotInTime);
        assert_eq!(certificate(CertificateError::Revoked), HandshakeFailure::Revoked);
        assert_eq!(certificate(CertificateError::BadEncoding), HandshakeFailure::BadCertificate);
        let other = CertificateError::Other(OtherError(Arc::new(io::Error::other("x"))));
        assert_eq!(certificate(other), HandshakeFailure::BadCertificate);
        let closed = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(HandshakeFailure::of(&closed), HandshakeFailure::Closed);
    }

    #[test]
    fn each_reason_has_its_own_counter() {
        let counters = FamilyCounters::default();
        HandshakeFailure::ALL.iter().for_each(|reason| counters.handshake_failed(*reason));
        assert!(counters.handshakes_failed.iter().all(|counter| counter.since_reset() == 1));
        counters.reset();
        assert!(counters.handshakes_failed.iter().all(|counter| counter.since_reset() == 0));
    }

    #[test]
    fn days_that_are_over_are_negative() {
        let cases = [(0, 0), (86_399, 0), (86_400, 1), (-1, -1), (-86_401, -2)];
        assert!(cases.iter().all(|(seconds, expected)| days(*seconds) == *expected));
    }
}
