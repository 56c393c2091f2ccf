"""The evaluations that Steadyhand brings, by the name a file gives them."""

from __future__ import annotations

EVALUATORS: dict[str, str] = {
    "string_contains": "steadyhand.builtin.evaluators.string_contains:StringContains",
    "regex_match": "steadyhand.builtin.evaluators.regex_match:RegexMatch",
    "file_exists": "steadyhand.builtin.evaluators.workspace:FileExists",
    "file_contains": "steadyhand.builtin.evaluators.workspace:FileContains",
    "command_exit_code_is": "steadyhand.builtin.evaluators.command_exit_code_is:CommandExitCodeIs",
    "trajectory_contains_action": "steadyhand.builtin.evaluators.trajectory_contains_action:TrajectoryContainsAction",
    "llm_judge": "steadyhand.builtin.evaluators.judge:LlmJudgeEvaluator",
    "execution_time": "steadyhand.builtin.evaluators.execution_time:ExecutionTime",
    "conversation_length": "steadyhand.builtin.evaluators.conversation_length:ConversationLength",
    "conversation_flow": "steadyhand.builtin.evaluators.conversation:ConversationFlow",
    "user_satisfaction": "steadyhand.builtin.evaluators.satisfaction:UserSatisfaction",
    "context_retention": "steadyhand.builtin.evaluators.context_retention:ContextRetention",
    "holds_across_turns": "steadyhand.builtin.evaluators.holds_across_turns:HoldsAcrossTurns",
    "regex": "steadyhand.builtin.evaluators.text:RegexInvariant",
    "contains": "steadyhand.builtin.evaluators.text:Contains",
    "not_contains": "steadyhand.builtin.evaluators.text:NotContains",
    "judge": "steadyhand.builtin.evaluators.judge_criterion:JudgeCriterion",
    "latency_budget": "steadyhand.builtin.evaluators.timing:LatencyBudget",
    "sequence": "steadyhand.builtin.evaluators.sequence:Sequence",
    "service_called": "steadyhand.builtin.evaluators.service_called:ServiceCalledEvaluator",
    "database_query": "steadyhand.builtin.evaluators.database:DatabaseQuery",
}
