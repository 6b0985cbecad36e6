//! The fault suite: real members, real servers, and everything that happens to both.
//!
//! Every fault is a test of its own for every server. Those that are marked as long are run by `./test --long`.

#[path = "faults/control_plane.rs"]
mod control_plane;
#[path = "faults/recovery.rs"]
mod recovery;
#[path = "faults/scenes.rs"]
mod scenes;
#[path = "faults/servers.rs"]
mod servers;
mod stage;

#[path = "faults/etcd.rs"]
mod etcd_alone;
#[path = "faults/postgres.rs"]
mod postgres_alone;
#[path = "faults/redis.rs"]
mod redis_alone;

/// Every fault for one server; `long` leaves all of them to the long campaign.
macro_rules! faults {
    (long $module:ident: $server:ty, $($more:ident)*) => {
        mod $module {
            faults! { @long $server =>
                a_holder_is_killed
                a_holder_is_told_to_stop
                the_server_is_killed_and_started_again
                the_answers_to_one_member_are_lost
            }
            faults! { @rest $server => $($more)* }
        }
    };
    ($module:ident: $server:ty, $($more:ident)*) => {
        mod $module {
            faults! { @now $server =>
                a_holder_is_killed
                a_holder_is_told_to_stop
                the_server_is_killed_and_started_again
                the_answers_to_one_member_are_lost
            }
            faults! { @rest $server => $($more)* }
        }
    };
    (@rest $server:ty => $($more:ident)*) => {
        faults! { @long $server =>
            a_holder_is_frozen_for_longer_than_its_ttl
            the_server_is_away_for_longer_than_the_ttl
            the_server_is_paused_for_longer_than_the_ttl
            one_member_is_cut_off
            all_members_are_cut_off
            the_requests_of_one_member_are_lost
            the_network_loses_a_third_and_is_slow
            a_round_trip_of_a_sixth_of_the_ttl_stops_no_work
            an_outage_below_a_third_of_the_ttl_loses_nobody_a_lease
            a_members_clock_jumps_an_hour
            the_servers_disk_is_full
            $($more)*
        }
    };
    (@now $server:ty => $($fault:ident)*) => {
        $(#[test]
        fn $fault() {
            crate::scenes::$fault::<$server>();
        })*
    };
    (@long $server:ty => $($fault:ident)*) => {
        $(#[test]
        #[ignore = "run by ./test --long"]
        fn $fault() {
            crate::scenes::$fault::<$server>();
        })*
    };
}

faults!(postgres: leasehold_testkit::Postgres, the_servers_clock_jumps_an_hour);
faults!(redis: leasehold_testkit::Redis, the_servers_clock_jumps_an_hour);
// proves R238: members that reach only a control plane are as safe as those that reach the store
faults!(http: crate::control_plane::ControlPlane<crate::control_plane::File>, the_servers_clock_jumps_an_hour);
faults!(long http_on_postgres: crate::control_plane::ControlPlane<leasehold_testkit::Postgres>, the_servers_clock_jumps_an_hour);
// Its clock cannot be moved from outside: it asks the kernel without the C library.
faults!(etcd: leasehold_testkit::Etcd,);
