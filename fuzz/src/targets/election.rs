//! Anything on the election port: read, or refused; and what was read means the same when it is written
//! again.

use zebu_proto::Reader;
use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::{InitialMessage, Notification};

pub(super) fn run(data: &[u8]) {
    if let Ok(message) = InitialMessage::decode(&mut Reader::new(data))
        && !message.addresses.is_empty()
    {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let again = InitialMessage::decode(&mut Reader::new(&bytes));
        // Text that is no UTF-8 grows when it is mended, and may become too long.
        assert!(again.is_err() || again == Ok(message));
    }
    for payload in [data, data.get(4..).unwrap_or_default()] {
        if let Ok(notification) = Notification::decode(payload) {
            let mut bytes = Vec::new();
            notification.encode(&mut bytes);
            let again = Notification::decode(&bytes[4..]).expect("what was written can be read");
            let expected = Notification {
                version: NotificationVersion::V2,
                config: Some(notification.config.clone().unwrap_or_default()),
                ..notification
            };
            assert_eq!(again, expected);
        }
    }
}
