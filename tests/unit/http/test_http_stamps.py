from steadyhand.http.stamps import Stamps


def stamped() -> Stamps:
    """Headers, then 10, 25 and 40 bytes of body in total, 10 ms apart, the first 30 ms after the request."""
    stamps = Stamps()
    stamps.sent = 100.0
    stamps.times = [100.02, 100.03, 100.04, 100.05]
    stamps.totals = [0, 10, 25, 40]
    return stamps


def test_each_byte_has_the_time_of_its_packet():
    stamps = stamped()
    assert [stamps.arrival(count) for count in (1, 10, 11, 25, 26, 40)] == [
        *(100.03, 100.03),
        *(100.04, 100.04),
        *(100.05, 100.05),
    ]
    assert stamps.last_byte == 100.05
    assert stamps.arrivals == ((30.0, 10), (40.0, 25), (50.0, 40))


def test_one_packet_makes_one_chunk():
    stamps = stamped()
    assert stamps.chunks([(4, 2), (10, 3), (12, 1), (40, 7)]) == ((30.0, 5), (40.0, 1), (50.0, 7))
    assert stamps.chunks([]) == ()
