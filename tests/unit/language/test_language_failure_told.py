"""An answer that says that something failed: yes where it is plainly said, and never a guess."""

import pytest

from steadyhand.language.answer import Certainty
from steadyhand.language.failure_told import says_it_failed


@pytest.mark.parametrize(
    "text",
    [
        "I could not reach the order system, so I do not know the status.",
        "I'm sorry, the order service is currently unavailable. Please try again later.",
        "The lookup timed out, but your invoice is open.",
        "I was unable to retrieve your order.",
        "The search returned nothing.",
        "I couldn't access the customer database because the service returned an error.",
        "The service didn't respond.",
        "Ich konnte die Bestellung leider nicht abrufen.",
        "Das Bestellsystem ist derzeit nicht erreichbar.",
        "Je n'ai pas pu accéder à votre commande.",
        "No he podido consultar su pedido.",
    ],
)
def test_it_is_told(text):
    ruling = says_it_failed(text)
    assert ruling.answer is Certainty.YES
    assert ruling.clause


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Your order has shipped.",
        "There was no error in the order system.",
        "If the system is not available, try again.",
        "Could the database be down?",
        "The system is not down.",
        "The lookup was not unavailable.",
        "I would tell you if the system was down.",
        "The error in your invoice is corrected.",
        "Jeg kunne ikke nå systemet.",
        "x" * 30_000,
    ],
)
def test_it_is_not_known_to_be_told(text):
    assert says_it_failed(text).answer is Certainty.CANNOT_TELL
