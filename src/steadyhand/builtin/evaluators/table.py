"""The evaluations that Steadyhand brings, by the name a file gives them."""

from __future__ import annotations

_HERE = "steadyhand.builtin.evaluators"

EVALUATORS: dict[str, str] = {
    "string_contains": f"{_HERE}.string_contains:StringContains",
    "regex_match": f"{_HERE}.regex_match:RegexMatch",
    "file_exists": f"{_HERE}.file_checks:FileExists",
    "file_contains": f"{_HERE}.file_checks:FileContains",
    "command_exit_code_is": f"{_HERE}.command_exit_code_is:CommandExitCodeIs",
    "trajectory_contains_action": f"{_HERE}.trajectory_contains_action:TrajectoryContainsAction",
    "llm_judge": f"{_HERE}.llm_judge:LlmJudgeEvaluator",
    "execution_time": f"{_HERE}.execution_time:ExecutionTime",
    "conversation_length": f"{_HERE}.conversation_length:ConversationLength",
    "conversation_flow": f"{_HERE}.conversation_flow:ConversationFlow",
    "user_satisfaction": f"{_HERE}.user_satisfaction:UserSatisfaction",
    "context_retention": f"{_HERE}.context_retention:ContextRetention",
    "holds_across_turns": f"{_HERE}.holds_across_turns:HoldsAcrossTurns",
    "regex": f"{_HERE}.invariants:RegexInvariant",
    "contains": f"{_HERE}.invariants:Contains",
    "not_contains": f"{_HERE}.invariants:NotContains",
    "judge": f"{_HERE}.judge_criterion:JudgeCriterion",
    "latency_budget": f"{_HERE}.latency_budget:LatencyBudget",
    "sequence": f"{_HERE}.sequence:Sequence",
    "service_called": f"{_HERE}.service_called:ServiceCalledEvaluator",
    "database_query": f"{_HERE}.database_query:DatabaseQuery",
}
