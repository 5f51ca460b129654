"""DuckDB's SQL over protected tables."""

import duckdb
import pyarrow as pa
import pytest

import ciphermill
import ciphermill.duckdb
from ciphermill import Misuse, Protector

COLUMNS = {"name": "deterministic:as=customer", "mail": "random", "card": "ff1:preset=card", "number": "deterministic"}


@pytest.fixture
def connection(key):
    connection = duckdb.connect()
    made = ciphermill.duckdb.register(connection, Protector(key, COLUMNS), types={"number": "BIGINT"})
    assert made == ["protect", "protect_text", "unprotect", "unprotect_text", "protect_bigint", "unprotect_bigint"]
    return connection


def test_values_come_back_in_sql(connection):
    connection.sql(
        "CREATE TABLE stored AS SELECT protect('name', 'Customer ' || i % 10) AS name, protect('mail', i || '@x') AS mail,"
        " protect_text('card', printf('4929 1234 %04d 9012', i)) AS card, protect_bigint('number', i) AS number,"
        " protect('name', NULL) AS nothing FROM range(5000) t(i)"
    )
    found = connection.sql(
        "SELECT count(DISTINCT name), count(DISTINCT mail), count(nothing), sum(unprotect_bigint('number', number)),"
        " max(unprotect('mail', mail)), max(unprotect_text('card', card)) FROM stored"
    ).fetchall()
    assert found == [(10, 5000, 0, sum(range(5000)), "9@x", "4929 1234 4999 9012")]
    assert connection.sql("SELECT count(*) FROM stored WHERE name = protect('name', 'Customer 7')").fetchall() == [(500,)]


def test_a_join_of_two_protected_tables_and_an_aggregate_after_unprotect(connection, key):
    people = Protector(key, {"name": "deterministic:as=customer"}).protect(
        pa.table({"name": [f"Customer {row}" for row in range(20)], "city": ["Bern", "Chur"] * 10})
    )
    orders = Protector(key, {"buyer": "deterministic:as=customer"}).protect(
        pa.table({"buyer": [f"Customer {row % 25}" for row in range(1000)], "total": list(range(1000))})
    )
    joined = connection.sql("SELECT city, sum(total) FROM people JOIN orders ON name = buyer GROUP BY city ORDER BY city")
    wanted = [sum(row for row in range(1000) if row % 25 < 20 and row % 25 % 2 == odd) for odd in (0, 1)]
    assert joined.fetchall() == [("Bern", wanted[0]), ("Chur", wanted[1])]
    summed = connection.sql("SELECT unprotect('name', buyer) AS who, sum(total) FROM orders GROUP BY who ORDER BY who LIMIT 1")
    assert summed.fetchall() == [("Customer 0", sum(range(0, 1000, 25)))]


def test_mistakes(connection, key):
    with pytest.raises(Exception, match="literal name of one column: name, mail"):
        connection.sql("SELECT protect('nam', 'x')").fetchall()
    with pytest.raises(Exception, match="not authentic"):
        connection.sql("SELECT unprotect('name', protect('mail', 'x'))").fetchall()
    with pytest.raises(Misuse, match="none of the columns"):
        ciphermill.duckdb.register(duckdb.connect(), Protector(key, COLUMNS), types={"nam": "BIGINT"})
