"""The agent under test. Replace the body of `reply` with a call to your own agent."""


def reply(message: str) -> str:
    if "refund" in message.lower():
        return "I have passed your request to a colleague, who decides on refunds within two days."
    return "How can I help you?"
