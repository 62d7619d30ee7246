#pragma once

// Measurements of four daemons with a redis-server, written by tools/pictures/measure-fleet: see
// there. The limit is 1000/s burst 1000, the load 1500 calls a second; weir 0.1.0, x86_64.

namespace weir::pictures::measured {

// fleet: admitted a second by each daemon, and queries to Redis a second.
inline constexpr int fleet_uneven[] = {870, 51, 39, 39};
inline constexpr int fleet_questions = 1520;
// leased: admitted a second by each daemon, and queries to Redis a second.
inline constexpr int leased_uneven[] = {850, 60, 45, 45};
inline constexpr int leased_questions = 89;
// split: admitted a second by each daemon, and queries to Redis a second.
inline constexpr int split_uneven[] = {250, 60, 45, 45};
inline constexpr int split_questions = 20;
// node: admitted a second by each daemon, and queries to Redis a second.
inline constexpr int node_uneven[] = {999, 60, 45, 45};
inline constexpr int node_questions = 20;

inline constexpr double step = 0.25;
inline constexpr double killed_at = 5;
inline constexpr double started_at = 12;
// fleet: admitted a second by all, in each step.
inline constexpr int fleet_change[] = {
    1016, 992,  1004, 1004, 1020, 996,  968,  1004, 1000, 1028, 1000, 988,  992,  1008, 980,  988,
    1024, 1020, 988,  976,  1020, 1016, 968,  1020, 996,  1000, 1016, 980,  996,  1004, 988,  980,
    1052, 976,  1024, 976,  988,  1024, 1000, 960,  1024, 1028, 984,  980,  1016, 1020, 996,  996,
    1012, 992,  996,  980,  1024, 1004, 988,  996,  996,  1012, 976,  1020, 1012, 1004, 980,  980,
    1012, 1004, 1004, 1012, 992,  1016, 992,  992,  1000, 1008, 980,  1016, 1000, 1008, 1004, 964};
// leased: admitted a second by all, in each step.
inline constexpr int leased_change[] = {
    864,  1148, 940,  1048, 1000, 956,  1028, 936,  1032, 1000, 1080, 1024, 960,  1004, 1076, 980,
    1024, 948,  992,  868,  1136, 976,  988,  968,  968,  956,  1132, 980,  1012, 992,  960,  976,
    1040, 948,  952,  984,  1132, 1064, 844,  1068, 1048, 928,  976,  1068, 912,  1096, 1008, 964,
    916,  1036, 1008, 1060, 1024, 872,  1012, 1028, 1128, 928,  1000, 1000, 968,  1012, 1060, 1068,
    868,  1072, 896,  1024, 896,  1112, 992,  1080, 1004, 928,  1024, 1084, 1024, 1012, 964,  1028};
// split: admitted a second by all, in each step.
inline constexpr int split_change[] = {
    1000, 1000, 1004, 992,  1004, 1004, 1000, 996,  996,  992,  1008, 1000, 992,  1012, 984,  1012,
    992,  1012, 936,  1048, 736,  768,  764,  716,  744,  772,  744,  740,  740,  772,  760,  752,
    752,  932,  1452, 1412, 1008, 976,  976,  1048, 1004, 988,  1032, 964,  1004, 992,  1028, 984,
    512,  192,  1000, 1020, 944,  1036, 1008, 1004, 1008, 988,  1008, 992,  956,  1060, 976,  996,
    1000, 992,  1032, 1000, 984,  988,  1020, 992,  960,  1028, 988,  1044, 984,  952,  1044, 1000};

}  // namespace weir::pictures::measured
